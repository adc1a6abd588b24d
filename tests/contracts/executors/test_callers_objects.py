"""Objects of the process that starts a job, on every executor: what it iterates, collects, prints to and calls."""

import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock import col
from penstock.engine.jobs.ledger import check_ledger
from tests.contracts.executors.ways import CASES, EXECUTORS, SMALL

ROWS = 5_000


class Pages:
    """An iterable that has no part of any file: only its own process can read it."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.lock = threading.Lock()
        self.places: set[int] = set()

    def __iter__(self) -> Iterator[dict[str, int]]:
        with self.lock:
            self.places.add(os.getpid())
        return ({"id": i, "worker": 0} for i in range(self.rows))


def worked_on(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "worker": os.getpid()}


@pytest.mark.parametrize("executor", CASES)
def test_what_the_caller_reads_and_writes_stays_with_it(tmp_path: Path, executor: str) -> None:
    options = EXECUTORS[executor]
    job, pages, made_in = ps.Job(), Pages(ROWS), []

    def generated() -> Iterator[dict[str, int]]:
        made_in.append(os.getpid())
        yield from ({"id": i, "worker": 0} for i in range(ROWS, 2 * ROWS))

    schema = {"id": int, "worker": int}
    read = [ps.read_iterable(source, schema=schema, job=job) for source in (pages, generated, iter(list(Pages(7))))]
    table = pa.table({"id": range(2 * ROWS, 3 * ROWS), "worker": [0] * ROWS})
    every = read[0].union(*read[1:], ps.read_memory(table, job=job))
    worked = every.rebalance().map(worked_on)

    printed, called, kept = io.StringIO(), [], worked.collect()
    worked.filter(col("id") < 10).select("id").print(file=printed)
    worked.for_each_batch(lambda rows: called.append((os.getpid(), threading.get_ident(), rows)))
    counts = worked.key_by(rest=col("id") % 3).agg(n=ps.count())
    latest = counts.collect()
    metrics = job.run("callers", parallelism=2, directory=tmp_path, **options, **SMALL)

    check_ledger(metrics.ledger, ended=True)
    here = os.getpid()
    ids = sorted([*range(3 * ROWS), *range(7)])
    # A function that makes an iterator is read wherever its instance is, an object where it is.
    assert pages.places == {here} and made_in == ([] if options else [here])
    assert sorted(kept.table()["id"].to_pylist()) == ids
    assert sorted(i for _, _, rows in called for i in rows.column("id").to_pylist()) == ids
    assert {(place, thread) for place, thread, _ in called} == {(here, threading.get_ident())}
    # A row that comes before its file is closed is there with its line, whoever of several has printed it.
    lines = sorted(line.split("id=")[1] for line in printed.getvalue().splitlines())
    assert lines == sorted(str(i) for i in ids if i < 10)
    assert {row["rest"]: row["n"] for row in latest.rows()} == {
        rest: sum(i % 3 == rest for i in ids) for rest in range(3)
    }
    workers = set(kept.table()["worker"].to_pylist())
    assert here not in workers and len(workers) == 2 if options else workers == {here}


@pytest.mark.parametrize("executor", CASES)
def test_an_error_of_a_callback_is_the_callers_own(tmp_path: Path, executor: str) -> None:
    job, error = ps.Job(), KeyError("not in this house")

    def refuse(rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            raise error

    ps.read_memory(pa.table({"id": range(ROWS)}), job=job).for_each_batch(refuse)
    with pytest.raises(Exception, match="not in this house") as raised:
        job.run("callers", parallelism=2, directory=tmp_path, **EXECUTORS[executor])
    assert raised.value is error or error in (raised.value.__cause__, raised.value.__context__)
