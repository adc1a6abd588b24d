"""Runs that measure what a drop costs beside a fetch: each with a broker of its own, in a folder of its own."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.benchmarks.kafka.drops import SIDES, TOPIC
from penstock.benchmarks.papers.dissp.real_queries import MESSAGES
from penstock.benchmarks.papers.evaluation import Progress, in_turn
from penstock.benchmarks.papers.real.injector import fill
from penstock.benchmarks.papers.real.kept_case import FINISHED
from penstock.benchmarks.papers.real.schedule import TopicLoad
from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import FatalError, OptionError

DROPS = "drops"
"""The name of these runs."""

ROWS = 1_000_000
_MOST_S = 300.0
_TURNS = 3


@dataclass(frozen=True, slots=True)
class DropRun:
    """CPU of a message on each side, us, the least of some turns; ``rows`` were read in each."""

    rows: int
    row_us: Mapping[str, float]


def drop_runs(runs: int, rows: int, folder: Path, progress: Progress) -> list[DropRun]:
    """Return so many runs in a folder; those that are not there yet are made."""
    numbers = range(1, runs + 1)
    return [drop_run(rows, folder / f"drop-{number}") for number in in_turn(numbers, "drops", progress)]


def drop_run(rows: int, folder: Path) -> DropRun:
    """Return a run, unless its folder has it already with a broker of its own.

    Raises:
        FatalError: a measurement failed.
        BrokerError: no broker can be started here.
        OptionError: the folder has a run with other rows.
    """
    finished = folder / FINISHED
    if not finished.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with TemporaryDirectory(prefix="penstock-drops-") as temporary, LocalBroker(temporary, large=True) as broker:
            create_topic(KafkaSettings(broker.bootstrap), TOPIC, 1)
            written = fill(broker.bootstrap, [TopicLoad(TOPIC, (1.0,), MESSAGES)], [rows])
            turns = [{side: _measured(side, broker.bootstrap, written) for side in SIDES} for _ in range(_TURNS)]
        part = finished.with_suffix(".part")
        part.write_text(json.dumps({"rows": written, "cpu_s": turns}), encoding="utf-8")
        part.replace(finished)
    run = read_drop_run(finished)
    if run.rows != rows:
        raise OptionError(
            f"{folder} has a run with {run.rows:,} rows, and {rows:,} are asked for: say another folder, "
            "or delete this one for the run to be made anew"
        )
    return run


def read_drop_run(finished: Path) -> DropRun:
    """Return the run in a file."""
    plain = json.loads(finished.read_text(encoding="utf-8"))
    least = {side: min(turn[side] for turn in plain["cpu_s"]) for side in SIDES}
    return DropRun(plain["rows"], {side: 1e6 * cpu_s / plain["rows"] for side, cpu_s in least.items()})


def _measured(side: str, kafka: str, rows: int) -> float:
    request = json.dumps({"side": side, "kafka": kafka, "rows": rows})
    command = [sys.executable, "-m", "penstock.benchmarks.kafka.drops", request]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_MOST_S, check=False)
    if ended.returncode:
        raise FatalError(f"measuring {side!r} failed; its own words stand above")
    return float(json.loads(ended.stdout)["cpu_s"])
