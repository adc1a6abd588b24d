"""The figures of a run of Flink-ER on real parts, by the rows it has written: when each was counted, and by whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from penstock.benchmarks.papers.flink_er.real_applications import COUNT, QUERY
from penstock.benchmarks.papers.real.seen import ACTIONS, SeenRun
from penstock.model.columns import Floats
from penstock.model.key_groups import key_groups_at
from penstock.scheduler.action_log import EntryKind, read_log, snapshot_of
from penstock.state.keys.batch_keys import KeyCodec

LATE_S = 1.0
"""A row that was counted so long after it was written has waited behind others."""

_NATURAL_S = 10.0
_WANTS = " instances of "
"""What the sentence of a scaler has that wants others (`ScalingStatus.sentence`)."""


@dataclass(frozen=True, slots=True)
class Written:
    """Rows in the order in which they were counted: when, how late, in which key group, and by which instance."""

    at_s: Floats
    late_s: Floats
    group: NDArray[np.int32]
    owner: NDArray[np.int64]
    counts: Mapping[tuple[str, int], list[int]]
    """By key and bucket what the count has been, in no order."""


def written(run: SeenRun) -> Written:
    """Read what a run has written."""
    table = _table(run.folder / "job" / QUERY)
    table = table.sort_by("at_ns")
    counts: dict[tuple[str, int], list[int]] = {}
    for key, bucket, count in zip(*(table.column(name).to_pylist() for name in ("key", "bucket", "n")), strict=True):
        counts.setdefault((key, bucket), []).append(count)
    hashes = KeyCodec([pa.string()]).hash([table.column("key").combine_chunks()])
    key_groups = run.case["start"]["key_groups"]
    return Written(
        run.seconds(table.column("at_ns").to_numpy()),
        table.column("late_ms").to_numpy() / 1e3,
        key_groups_at((hashes >> np.uint64(32)).astype(np.uint32), key_groups),
        table.column("owner").to_numpy(),
        counts,
    )


def _table(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])


def step_s(run: SeenRun) -> float:
    """Return when the load has doubled, seconds; of one that does not rise, when it would have."""
    return run.bounds[0][1] if len(run.bounds) > 1 else run.bounds[0][1] / 3


def lag_over_s(run: SeenRun, rows: Written) -> float:
    """Return how long after the step the rows of a second were late for the last time, on the mean."""
    begin, end = step_s(run), run.bounds[-1][1]
    edges = np.arange(begin, end + 1e-9, 1.0)
    place = np.digitize(rows.at_s, edges) - 1
    late = [
        second for second in range(len(edges) - 1) if (own := rows.late_s[place == second]).size and own.mean() > LATE_S
    ]
    return float(late[-1] + 1) if late else 0.0


def decided_s(run: SeenRun) -> float | None:
    """Return how long after the step the job first said that it wants other instances; None: it never did."""
    said = [
        float(at_s)
        for at_s, sample in zip(run.times_s, run.samples, strict=True)
        if at_s >= step_s(run) and _WANTS in sample.get("scaling", "")
    ]
    return said[0] - step_s(run) if said else None


def still_s(run: SeenRun, rows: Written) -> float:
    """Return the longest time after the step in which no row was counted at all, seconds."""
    own = rows.at_s[(rows.at_s >= step_s(run)) & (rows.at_s <= run.bounds[-1][1])]
    return float(np.diff(own).max())


def moved_pauses_s(rows: Written) -> list[float]:
    """Return of each key group whose rows another instance counts from then on how long nobody counted one."""
    pauses: list[float] = []
    for group in np.unique(rows.group):
        own = np.flatnonzero(rows.group == group)
        changed = np.flatnonzero(np.diff(rows.owner[own]))
        pauses += (rows.at_s[own[changed + 1]] - rows.at_s[own[changed]]).tolist()
    return pauses


def natural_pauses_s(run: SeenRun, rows: Written) -> list[float]:
    """Return how long nobody counted a row of a key group in the seconds before the step, each time."""
    begin, end = step_s(run) - _NATURAL_S, step_s(run)
    inside = (rows.at_s >= begin) & (rows.at_s <= end)
    own = [rows.at_s[inside & (rows.group == group)] for group in np.unique(rows.group)]
    return [pause for each in own for pause in np.diff(each).tolist()]


def wrong_counts(run: SeenRun, rows: Written) -> int:
    """Return how many keys and buckets were not counted from 1 to what was offered, each number once."""
    exact = {(key, bucket): count for key, bucket, count in run.exact}
    return sum(
        sorted(rows.counts.get(where, [])) != list(range(1, exact.get(where, 0) + 1))
        for where in exact.keys() | rows.counts.keys()
    )


@dataclass(frozen=True, slots=True)
class Acted:
    """What a run's policy has wanted: the tasks of its first plan, how many plans, and what became of them."""

    first: tuple[str, ...]
    plans: int
    results: tuple[Mapping[str, Any], ...]

    @property
    def is_named(self) -> bool:
        """Whether the first plan was for the one task that counts."""
        return len(self.first) == 1 and COUNT in self.first[0].split(" -> ")


def acted(run: SeenRun) -> Acted:
    """Read what the policy of a run has decided, and what was done."""
    first: tuple[str, ...] = ()
    plans, results, latest = 0, [], None
    path = run.folder / ACTIONS
    for entry in read_log(path):
        if entry.kind is EntryKind.SNAPSHOT:
            latest = snapshot_of(path, entry)
        elif entry.kind is EntryKind.DECISION and entry.content["decision"]["kind"] == "RescalePlan":
            assert latest is not None
            plans += 1
            sizes = entry.content["decision"]["tasks"]
            first = first or tuple(latest.tasks.name[size["task"]] for size in sizes)
        elif entry.kind is EntryKind.RESULT and entry.content["outcome"] in ("applied", "failed"):
            results.append(entry.content)
    return Acted(first, plans, tuple(results))
