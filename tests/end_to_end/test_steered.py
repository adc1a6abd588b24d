"""Queries whose job is changed at random as it runs, and whose task managers are killed: the answer is the oracle's."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.model.option_literals import WriteMode
from tests.chaos.held_back import Gate, hold_back
from tests.chaos.kafka_outputs import committed_rows, oracle_rows
from tests.chaos.steering import CHANCES, Steering
from tests.contracts.executors.metered import task_managers
from tests.contracts.executors.ways import PROCESSES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]

EVENTS, EVENTS_PER_S = 40_000, 100.0
ROWS_PER_S = 150.0
"""The share of an order is read within one or two seconds, of which it takes as long."""

MODES: dict[str, WriteMode] = {"q4": "changelog", "q5": "append", "q8": "append", "q11": "append"}

ORDERS = int(os.environ.get("PENSTOCK_STEERED_ORDERS", "100"))
KILLS = ORDERS // 4
"""What each query gets."""

SEED = int(os.environ.get("PENSTOCK_STEERED_SEED", "23"))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data-set")
    write_dataset(folder, NexmarkConfig(EVENTS, rate_per_s=EVENTS_PER_S), row_group_rows=1_000)
    return folder


def steered(
    directory: Path,
    folder: Path,
    query: str,
    way: Mapping[str, Any] = PROCESSES,
    processes: Callable[[], Sequence[psutil.Process]] = task_managers,
    orders: int = ORDERS,
    kills: int = KILLS,
    chances: Mapping[str, float] = CHANCES,
) -> Steering:
    """Change a query's job over files, with kills of task managers in between, and hold its answer to the oracle's."""
    job = ps.Job()
    stream = load(query)(Events(job, directory))
    for number, node in enumerate(list(job.graph.operators.values())):
        job.change(node.id, name=f"{node.name} {number}", named=True)
    gate = Gate(folder / "gate", *_times_us(directory))
    gate.open(0.0)
    hold_back(job, "dateTime", ROWS_PER_S, gate)
    out = folder / "out"
    stream.write_json(out, mode=MODES[query]).name("out")
    handle = job.start(
        "steered",
        **way,
        parallelism=2,
        restart_delay="1ms",
        directory=folder / "job",
        checkpoint_dir=folder / "checkpoints",
        checkpoint_interval="100ms",
    )
    steering = Steering(handle, SEED, gate.open, processes, chances)
    steering.give(orders, kills)
    handle.wait()
    files = sorted(out.glob("part-*"))
    lines = [(None, line) for file in files for line in file.read_bytes().splitlines()]
    assert committed_rows(MODES[query], lines) == oracle_rows(query, directory)
    return steering


def _times_us(directory: Path) -> tuple[int, int]:
    """Return the first and the last time of a data set's bids."""
    times = pq.read_table(directory / "bid.parquet", columns=["dateTime"]).column(0).cast("timestamp[us]")
    first, last = pc.min_max(times).values()
    return first.value, last.value


def check(steering: Steering) -> None:
    """Hold what was done against what was wanted: all of it, and most of what needs no restart without one."""
    print(dict(steering.done), dict(steering.refused), dict(steering.able), dict(steering.live))
    assert steering.done["kill"] == KILLS and steering.done.total() == ORDERS + KILLS
    assert ORDERS < 100 or all(steering.done[kind] for kind in ("rescale", "move", "scale", "drain"))
    check_live(steering)


def check_live(steering: Steering) -> None:
    """Hold that of the orders that needed no restart most were carried out without one."""
    assert steering.able.total() > 0
    assert all(steering.live[kind] > count / 2 for kind, count in steering.able.items()), (steering.able, steering.live)


def test_task_managers_come_and_go_and_change_nothing_in_the_answer(
    directory: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chances = {"scale": 0.5, "drain": 0.5}
    # Query 5 has a join with a broadcast side, which goes behind a checkpoint.
    steering = steered(directory, tmp_path, "q11", orders=8, kills=1, chances=chances)
    assert steering.done.total() == 9
    check_live(steering)
    assert capfd.readouterr().err.count("DRAINED: ") > 0


@pytest.mark.long("a hundred orders and 25 kills; tests/contracts/executors has one of each")
@pytest.mark.parametrize("query", MODES)
def test_orders_and_kills_change_nothing_in_the_answer(directory: Path, tmp_path: Path, query: str) -> None:
    check(steered(directory, tmp_path, query))
