"""Rates of keys on every executor, changed while jobs run, fail and go on elsewhere: sessions are those of DuckDB."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col
from penstock.dsl.handle import Handle
from penstock.engine.dataflow.partition_sample import sampling_seed
from penstock.engine.jobs.ledger import check_ledger
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.config import LoopOptions
from penstock.model.errors import PenstockError
from penstock.model.keep_rates import STEPS, KeepRates
from penstock.shedding.key_sampling import key_steps
from penstock.state.keys.batch_keys import KeyCodec
from tests.contracts.executors.metered import BEGIN_US, PARTITIONS, ROWS, Metered, rows_of, task_managers, until
from tests.contracts.executors.test_branch_shedding import set_and_read
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.test_shedding import WAYS, SheddingJob
from tests.long_cases import but_for
from tests.set_rates import Rates, set_by_attempts

EDGE = ("some", "visits")
USERS = 211
"""Each comes for five rows of every partition, 40 ms, every eleven seconds."""


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rates]:
    waiting = set_by_attempts(monkeypatch)
    yield waiting
    assert waiting.empty()


class VisitingJob(SheddingJob):
    """Rows in sessions of their users."""

    def start_visiting(self, *, minimum: float = 0.1, **options: Any) -> Handle:
        job = ps.Job()
        numbers = ps.read(Metered(self.folder / "meter"), time="at", job=job).name("numbers")
        some = numbers.select("id", "at", user=(col("id") // (5 * PARTITIONS) * 31) % USERS).name("some")
        visits = some.key_by("user").window(ps.session("1s")).agg(n=ps.count(), total=ps.sum_("id")).name("visits")
        visits.write_parquet(self.folder / "out" / "visits").name("found").with_min_accuracy(minimum)
        times = visits.select("n", "window_end", odd=col("user") % 2).name("times")
        sums = times.key_by("odd").window(ps.tumbling("10s")).agg(visits=ps.count(), rows=ps.sum_("n")).name("sums")
        sums.write_parquet(self.folder / "out" / "sums").name("summed").with_min_accuracy(minimum)
        return job.start("metered", **self._options(options))

    def check_visits(self, metrics: JobMetrics) -> set[float]:
        """Hold what was written against all sessions; return the accuracies that it has."""
        table = pa.concat_tables([pq.read_table(path) for path in (self.folder / "out" / "visits").glob("*.parquet")])
        written = {(row["user"], row["n"], row["total"], row["first"]): row for row in self._rows(table)}
        assert len(written) == table.num_rows and not any(table.column("biased").to_pylist())
        limits = self._limits()
        least = int(limits.min())
        seed = sampling_seed("metered", LoopOptions().seed)
        expected = self._expected()
        steps = key_steps(seed, KeyCodec([pa.int64()]).hash([pa.array([key[0] for key in expected])]))
        for session, step in zip(expected, steps.tolist(), strict=True):
            row = written.pop(session, None)
            assert row is not None or step >= least
            if row is not None:
                first = (session[3] - BEGIN_US) // 10_000
                assert step < row["accuracy"] * STEPS <= limits[:, first : first + 5].min()
        assert not written, "sessions that there are not without shedding"
        self._check_sums(table)
        check_ledger(metrics.ledger, ended=True)
        assert metrics.source_rows == PARTITIONS * ROWS
        return set(table.column("accuracy").to_pylist())

    def _check_sums(self, visits: pa.Table) -> None:
        """Hold totals over sessions against those that were written, each of which stands for 1 / accuracy."""
        estimated: dict[tuple[int, int], list[float]] = {}
        for row in visits.append_column("last", visits.column("window_end").cast(pa.int64())).to_pylist():
            sums = estimated.setdefault((row["user"] % 2, (row["last"] - 1) // 10_000_000), [0.0, 0.0, 0.0])
            for place, number in enumerate((1, row["n"])):
                sums[place] += number / row["accuracy"]
            sums[2] += 1
        table = pa.concat_tables([pq.read_table(path) for path in (self.folder / "out" / "sums").glob("*.parquet")])
        rows = table.append_column("first", table.column("window_start").cast(pa.int64())).to_pylist()
        assert len(rows) == len(estimated)
        for row in rows:
            count, total, kept = estimated[row["odd"], row["first"] // 10_000_000]
            assert abs(row["visits"] - count) <= 0.5 and abs(row["rows"] - total) <= 0.5
            assert row["accuracy"] == pytest.approx(kept / count) and not row["biased"]
            if row["accuracy"] == 1.0:
                assert row["visits_low"] == row["visits"] == row["visits_high"]
            elif row["rows_low"] is not None:
                assert row["rows_low"] < row["rows"] < row["rows_high"]

    def _limits(self) -> np.ndarray:
        """Return the rate in steps at which each row of each partition was read, by the log."""
        limits = np.full((PARTITIONS, ROWS), STEPS)
        for item in self.log():
            limits[int(item.partition), item.start : item.stop] = item.branches.get(">".join(EDGE), 1.0) * STEPS
        return limits

    def _rows(self, table: pa.Table) -> list[dict[str, Any]]:
        return table.append_column("first", table.column("window_start").cast(pa.int64())).to_pylist()

    def _expected(self) -> list[tuple[int, int, int, int]]:
        given = pa.Table.from_batches([rows_of(number, 0, ROWS) for number in range(PARTITIONS)])
        with duckdb.connect(config={"threads": 1}) as con:
            con.register("given", given)
            return con.sql(
                f"""
                WITH visited AS (
                  SELECT id, epoch_us("at") AS time_us, (id // {5 * PARTITIONS} * 31) % {USERS} AS visitor FROM given),
                begun AS (SELECT *, time_us - lag(time_us, 1, -(1::BIGINT << 60)) OVER w > 1000000 AS is_first
                  FROM visited WINDOW w AS (PARTITION BY visitor ORDER BY time_us)),
                numbered AS (SELECT *, sum(is_first::INT) OVER (PARTITION BY visitor ORDER BY time_us) AS number
                  FROM begun)
                SELECT visitor, count(*), sum(id)::BIGINT, min(time_us) FROM numbered GROUP BY visitor, number
                """
            ).fetchall()


@pytest.fixture
def job(tmp_path: Path) -> VisitingJob:
    made = VisitingJob(tmp_path)
    made.give(0)
    return made


def rate(keep: float) -> KeepRates:
    return KeepRates({}, {EDGE: keep} if keep < 1.0 else {})


@pytest.mark.parametrize(
    "way",
    but_for(WAYS, ["embedded, 1", "embedded, 2, small", "processes, 2"], "the other ways; those of most difference"),
)
def test_sessions_that_leave_are_whole_whatever_the_rates_were(
    job: VisitingJob, rates: Rates, way: str, request: pytest.FixtureRequest
) -> None:
    if way.startswith("ray"):
        request.getfixturevalue("on_ray")
    handle = job.start_visiting(checkpoint_interval="50ms", **WAYS[way])
    set_and_read(job, handle, rates, rate(0.5), 1_000)
    set_and_read(job, handle, rates, rate(0.125), 2_000)
    set_and_read(job, handle, rates, rate(1.0), 3_000)
    rates.put(rate(0.75))
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    assert job.check_visits(metrics) == {0.5, 0.125, 0.75, 1.0}
    assert 0 < metrics.ledger.shed < PARTITIONS * ROWS
    assert {tuple(item.branches.items()) for item in job.log()} == {
        ((">".join(EDGE), 0.5),),
        ((">".join(EDGE), 0.125),),
        (),
        ((">".join(EDGE), 0.75),),
    }


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_job_that_sheds_by_keys_goes_on_at_another_parallelism(
    job: VisitingJob, rates: Rates, before: int, after: int
) -> None:
    handle = job.start_visiting(checkpoint_interval="50ms", parallelism=before)
    set_and_read(job, handle, rates, rate(0.25), 1_500)
    handle.stop()
    handle = job.start_visiting(checkpoint_interval="50ms", parallelism=after)
    set_and_read(job, handle, rates, rate(1.0), 2_500)
    rates.put(rate(0.5))
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    assert job.check_visits(metrics) == {0.25, 0.5, 1.0}


def test_after_a_task_manager_is_killed_sessions_are_whole(job: VisitingJob, rates: Rates) -> None:
    handle = job.start_visiting(**{**WAYS["processes, 2"], "checkpoint_interval": "50ms"})
    set_and_read(job, handle, rates, rate(0.5), 1_500)
    kill(task_managers()[0].pid)
    rates.put(rate(0.25))
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 1
    # What an attempt reads before it is told the rates is whole, and not in the log.
    assert {0.25} <= job.check_visits(metrics) <= {0.5, 0.25, 1.0}


def test_without_its_contract_a_job_does_not_go_on_from_sessions_of_a_sample(job: VisitingJob, rates: Rates) -> None:
    handle = job.start_visiting(checkpoint_interval="50ms")
    set_and_read(job, handle, rates, rate(0.5), 1_500)
    handle.stop()
    with pytest.raises(PenstockError, match="rows of open sessions of 'visits' were dropped by their keys"):
        job.start_visiting(minimum=1.0).wait()


def test_a_job_that_is_not_shed_writes_all_sessions(job: VisitingJob) -> None:
    job.give(ROWS)
    assert job.check_visits(job.start_visiting(parallelism=2).wait()) == {1.0}
