"""Every Nexmark query equals DuckDB's answer over the same files, however it is cut and interleaved."""

from pathlib import Path

import pytest

from penstock.engine.ledger import check_ledger, read_ledger
from tests.benchmarks.oracle import QUERIES, assert_same_rows
from tests.end_to_end.nexmark_support import DataSets, answer, prepare


def check(query: str, directory: Path, folder: Path, *, parallelism: int, batch_rows: int) -> None:
    job, sink = prepare(query, directory, parallelism=parallelism, batch_rows=batch_rows, folder=folder)
    job.run()
    ledger = read_ledger(job.build)
    check_ledger(ledger, ended=True)
    assert (ledger.late, ledger.dead_lettered) == (0, 0)
    assert_same_rows(sink.table(), answer(query, directory))


CONDITIONS = [
    pytest.param(name, shuffled, parallelism, batch_rows, marks=pytest.mark.xdist_group(f"{name}-{shuffled}"))
    for name in ("midnight", "day")
    for shuffled in (False, True)
    for parallelism in (1, 2)
    for batch_rows in (997, 32_768)
    if ((name == "day") + shuffled + (parallelism == 2) + (batch_rows == 997)) % 2 == 0
]
"""Half of all, so that any three of the four come together in every way."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shuffled", "parallelism", "batch_rows"), CONDITIONS)
@pytest.mark.parametrize("query", QUERIES)
def test_a_million_events(
    data_sets: DataSets, tmp_path: Path, query: str, batch_rows: int, parallelism: int, name: str, shuffled: bool
) -> None:
    directory = data_sets.directory(name, shuffled=shuffled)
    check(query, directory, tmp_path, parallelism=parallelism, batch_rows=batch_rows)


@pytest.mark.parametrize(("name", "parallelism"), [("midnight", 1), ("day", 2)])
@pytest.mark.parametrize("query", QUERIES)
def test_row_by_row(data_sets: DataSets, tmp_path: Path, query: str, parallelism: int, name: str) -> None:
    directory = data_sets.directory(name, shuffled=True, events=5_000)
    check(query, directory, tmp_path, parallelism=parallelism, batch_rows=1)


@pytest.mark.parametrize("query", QUERIES)
def test_one_window_in_many_batches(data_sets: DataSets, tmp_path: Path, query: str) -> None:
    directory = data_sets.directory("midnight", shuffled=True, events=200_000)
    check(query, directory, tmp_path, parallelism=2, batch_rows=4_096)
