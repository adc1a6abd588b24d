"""How often the intervals of a run cover what its rides add up to, which is read from the topics again, none shed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from penstock.benchmarks.papers.economics.applications import SINKS
from penstock.benchmarks.papers.economics.real_applications import fares_of_all
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.dsl.job import Job

_QUIET_S = 10.0
"""Windows so close to the end are left out: their rows may not all have been read when the job was stopped."""


def exact_fares(kafka: str, topics: Sequence[str]) -> list[dict[str, Any]]:
    """Return what all rides add up to, by zone and window: rows read again without the work, and none shed."""
    job = Job()
    found = fares_of_all(job, kafka, topics[:2]).collect()
    job.run("exact")
    rows: list[dict[str, Any]] = json.loads(json.dumps(found.table().to_pylist(), default=_time_text))
    return rows


def _time_text(moment: Any) -> str:
    return str(moment.isoformat(timespec="milliseconds"))


@dataclass(frozen=True, slots=True)
class Coverage:
    """Intervals of shed windows: how many there are, and the shares that cover; ``bare``: if kept rows counted once."""

    intervals: int
    covered: float
    bare: float


def coverage(run: SeenRun) -> Coverage:
    """Return how often 95% intervals of counts and fares cover what all rides add up to, in windows that were shed."""
    exact = {(row["zone"], _moment(row["window_start"])): row for row in run.exact}
    last = max(moment for _, moment in exact)
    hits, bare = list[bool](), list[bool]()
    for sink in SINKS:
        for line in (run.folder / "job" / f"{sink}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            true = exact.get((row["zone"], _moment(row["window_start"])))
            if true is None or row["accuracy"] >= 1.0 or _moment(row["window_start"]) > last - _QUIET_S:
                continue
            for name in ("rides", "fares"):
                low, high = row[f"{name}_low"], row[f"{name}_high"]
                if low is None:
                    continue
                hits.append(low <= true[name] <= high)
                bare.append(low * row["accuracy"] <= true[name] <= high * row["accuracy"])
    return Coverage(len(hits), float(np.mean(hits)) if hits else 0.0, float(np.mean(bare)) if bare else 0.0)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).replace(tzinfo=UTC).timestamp()
