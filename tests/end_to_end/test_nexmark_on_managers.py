"""Every Nexmark query on two task managers equals DuckDB's answer, by every transport, in batches of any size."""

from pathlib import Path

import pytest

from penstock.dsl.job import make_ready
from penstock.engine.jobs.ledger import check_ledger
from penstock.model.config import LoopOptions
from penstock.runs.run_options import PROCESSES, TRANSPORTS, RunOptions
from tests.benchmarks.oracle import QUERIES, assert_same_rows
from tests.end_to_end.nexmark_support import DataSets, answer, pipeline
from tests.long_cases import but_for

EVENTS = 100_000
BATCHES = (997, LoopOptions().batch_rows)
CASES = [(query, transport, rows) for query in QUERIES for transport in TRANSPORTS for rows in BATCHES]
CROSSING = [("q3", "ring", 997), ("q5", "tcp", BATCHES[1]), ("q8", "ring", BATCHES[1]), ("q11", "tcp", 997)]
"""Joins, hopping windows, windows of two streams and sessions: most rows change the process."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "transport", "batch_rows"),
    but_for(CASES, CROSSING, "every query by every way in every size; four that cross most stay"),
)
def test_two_task_managers(data_sets: DataSets, tmp_path: Path, query: str, transport: str, batch_rows: int) -> None:
    directory = data_sets.directory("midnight", shuffled=True, events=EVENTS)
    job, sink = pipeline(query, directory)
    loop = LoopOptions(batch_rows=batch_rows)
    options = RunOptions(query, 2, tmp_path / "job", loop, executor=PROCESSES, task_managers=2, transport=transport)
    running = make_ready(job, options)
    running.run()
    ledger = running.metrics().ledger
    check_ledger(ledger, ended=True)
    assert (ledger.late, ledger.dead_lettered) == (0, 0)
    assert_same_rows(sink.table(), answer(query, directory))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
