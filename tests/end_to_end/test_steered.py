"""Queries whose job is changed at random as it runs, and whose task managers are killed: the answer is the oracle's."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

import penstock as ps
from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.model.option_literals import WriteMode
from tests.chaos.kafka_outputs import committed_rows, oracle_rows
from tests.chaos.steering import Steering, slow_down
from tests.contracts.executors.metered import task_managers
from tests.contracts.executors.ways import PROCESSES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]

EVENTS = 200_000
ROWS_PER_S = 400.0
"""So slowly are they read that they last longer than the orders take."""

MODES: dict[str, WriteMode] = {"q4": "changelog", "q5": "append", "q8": "append", "q11": "append"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data-set")
    write_dataset(folder, NexmarkConfig(EVENTS, rate_per_s=1_000.0), row_group_rows=10_000)
    return folder


def steered(
    directory: Path,
    folder: Path,
    query: str,
    orders: int,
    kills: int,
    way: Mapping[str, Any] = PROCESSES,
    processes: Callable[[], Sequence[psutil.Process]] = task_managers,
) -> Steering:
    """Change a query's job over files so often, and hold its answer to the oracle's."""
    job = ps.Job()
    stream = load(query)(Events(job, directory))
    for number, node in enumerate(list(job.graph.operators.values())):
        job.change(node.id, name=f"{node.name} {number}", named=True)
    hurry = folder / "hurry"
    slow_down(job, ROWS_PER_S, hurry)
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
    steering = Steering(handle, seed=orders, processes=processes)
    steering.give(orders, kills)
    hurry.touch()
    handle.wait()
    files = sorted(out.glob("part-*"))
    lines = [(None, line) for file in files for line in file.read_bytes().splitlines()]
    assert committed_rows(MODES[query], lines) == oracle_rows(query, directory)
    print(dict(steering.done), dict(steering.refused))
    return steering


@pytest.mark.long("a hundred orders and 24 kills; tests/contracts/executors has one of each")
@pytest.mark.parametrize("query", MODES)
def test_orders_and_kills_change_nothing_in_the_answer(directory: Path, tmp_path: Path, query: str) -> None:
    """``PENSTOCK_ORDERS`` sets how many orders each query gets, 25 at least."""
    orders = max(25, int(os.environ.get("PENSTOCK_ORDERS", "25")))
    steering = steered(directory, tmp_path, query, orders, kills=orders // 4)
    assert steering.done.total() == orders + orders // 4 and steering.done["rescale"]
