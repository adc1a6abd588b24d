"""Every Nexmark query equals DuckDB's answer over the same events, however they are cut, ordered and interleaved."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.engine.connectors.nexmark.generator import KINDS
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.ledger import check_ledger, read_ledger
from penstock.engine.plan.planner import plan
from penstock.model.config import LoopOptions
from tests.benchmarks.oracle import QUERIES, assert_same_rows
from tests.end_to_end.nexmark_support import DataSets, answer, pipeline, prepare
from tests.long_cases import but_for


def check(
    query: str, directory: Path, folder: Path, *, parallelism: int, batch_rows: int, asked: Path | None = None
) -> None:
    """Hold a query against the oracle, which may be asked of other files with the same events."""
    job, sink = prepare(query, directory, parallelism=parallelism, batch_rows=batch_rows, folder=folder)
    job.run()
    ledger = read_ledger(job.build)
    check_ledger(ledger, ended=True)
    assert (ledger.late, ledger.dead_lettered) == (0, 0)
    assert_same_rows(sink.table(), answer(query, asked or directory))


NAMES = ("midnight", "day")
CONDITIONS = [
    pytest.param(name, shuffled, parallelism, batch_rows, marks=pytest.mark.xdist_group(name))
    for name in NAMES
    for shuffled in (False, True)
    for parallelism in (1, 2)
    for batch_rows in (997, 32_768)
    if ((name == "day") + shuffled + (parallelism == 2) + (batch_rows == 997)) % 2 == 0
]
"""Half of all, so that any three of the four come together in every way."""


@pytest.mark.slow
@pytest.mark.long("a million events, 184 times; 5,000 row by row and 200,000 in many batches")
@pytest.mark.parametrize(("name", "shuffled", "parallelism", "batch_rows"), CONDITIONS)
@pytest.mark.parametrize("query", QUERIES)
def test_a_million_events(
    data_sets: DataSets, tmp_path: Path, query: str, batch_rows: int, parallelism: int, name: str, shuffled: bool
) -> None:
    directory, asked = (data_sets.directory(name, shuffled=order) for order in (shuffled, False))
    check(query, directory, tmp_path, parallelism=parallelism, batch_rows=batch_rows, asked=asked)


@pytest.mark.slow
@pytest.mark.long("compares sets of a million events; rows of smaller ones in any order give the same answers")
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in NAMES])
def test_the_oracle_has_one_answer_to_both_orders(data_sets: DataSets, name: str) -> None:
    """Files in order and shuffled hold the same events, each as often; bids at least are in other places."""
    moved = set()
    for kind in KINDS:
        ordered, shuffled = (
            pq.read_table(data_sets.directory(name, shuffled=order) / f"{kind}.parquet") for order in (False, True)
        )
        assert_same_rows(shuffled, ordered)
        if ordered != shuffled:
            moved.add(kind)
    assert "bid" in moved


QUICK_ON_TWO = ("q2", "q3", "q8", "q10", "q11")
SLOW_ON_ONE = ("q7", "q9", "q15", "q16", "q17")


@pytest.mark.parametrize(
    ("query", "name", "parallelism"),
    but_for(
        [(query, *where) for query in QUERIES for where in (("midnight", 1), ("day", 2))],
        [
            *((query, "midnight", 1) for query in QUERIES if query not in SLOW_ON_ONE),
            *((query, "day", 2) for query in QUICK_ON_TWO),
        ],
        "every row alone; quicker queries so, and each in test_one_window_in_many_batches",
    ),
)
def test_row_by_row(data_sets: DataSets, tmp_path: Path, query: str, parallelism: int, name: str) -> None:
    directory = data_sets.directory(name, shuffled=True, events=5_000)
    check(query, directory, tmp_path, parallelism=parallelism, batch_rows=1)


@pytest.mark.parametrize("query", QUERIES)
def test_one_window_in_many_batches(data_sets: DataSets, tmp_path: Path, query: str) -> None:
    directory = data_sets.directory("midnight", shuffled=True, events=200_000)
    check(query, directory, tmp_path, parallelism=2, batch_rows=4_096)


@pytest.mark.parametrize("query", ["q3", "q5", "q8", "q11", "q13", "q18", "q23"])
def test_sinks_of_the_caller_apart(data_sets: DataSets, tmp_path: Path, query: str) -> None:
    directory = data_sets.directory("midnight", shuffled=True, events=50_000)
    job, sink = pipeline(query, directory)
    planned = plan(job.graph, 2, apart=True)
    names = [planned.name(task) for task in planned.tasks]
    assert query in names
    embedded = EmbeddedJob(JobPlan(query, planned, LoopOptions(batch_rows=4_096), tmp_path))
    embedded.run()
    check_ledger(read_ledger(embedded.build), ended=True)
    assert_same_rows(sink.table(), answer(query, directory))
