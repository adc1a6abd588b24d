"""Rates of keys on every executor, changed while jobs run, fail and go on elsewhere: sessions are those of DuckDB."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col
from penstock.dsl.job import Handle
from penstock.engine.dataflow.partition_sample import sampling_seed
from penstock.engine.jobs.ledger import check_ledger
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.config import LoopOptions
from penstock.model.keep_rates import STEPS, KeepRates
from penstock.shedding.key_sampling import key_steps
from penstock.state.keys.batch_keys import KeyCodec
from tests.contracts.executors.metered import PARTITIONS, ROWS, Metered, rows_of, until
from tests.contracts.executors.test_branch_shedding import set_and_read
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

    def start_visiting(self, **options: Any) -> Handle:
        job = ps.Job()
        numbers = ps.read(Metered(self.folder / "meter"), time="at", job=job).name("numbers")
        some = numbers.select("id", "at", user=(col("id") // (5 * PARTITIONS) * 31) % USERS).name("some")
        visits = some.key_by("user").window(ps.session("1s")).agg(n=ps.count(), total=ps.sum_("id")).name("visits")
        visits.write_parquet(self.folder / "out" / "visits").name("found").with_min_accuracy(0.1)
        return job.start("metered", **self._options(options))

    def check_visits(self, metrics: JobMetrics) -> set[float]:
        """Hold what was written against all sessions; return the accuracies that it has."""
        table = pa.concat_tables([pq.read_table(path) for path in (self.folder / "out" / "visits").glob("*.parquet")])
        written = {(row["user"], row["n"], row["total"], row["first"]): row for row in self._rows(table)}
        assert len(written) == table.num_rows and not any(table.column("biased").to_pylist())
        log = [item for item in self.log() if item.branches]
        least = min((item.branches[">".join(EDGE)] for item in log), default=1.0)
        seed = sampling_seed("metered", LoopOptions().seed)
        expected = self._expected()
        steps = key_steps(seed, KeyCodec([pa.int64()]).hash([pa.array([key[0] for key in expected])]))
        for session, step in zip(expected, steps.tolist(), strict=True):
            row = written.pop(session, None)
            assert row is not None or step >= least * STEPS
            assert row is None or step < row["accuracy"] * STEPS
        assert not written, "sessions that there are not without shedding"
        check_ledger(metrics.ledger, ended=True)
        assert metrics.source_rows == PARTITIONS * ROWS
        return set(table.column("accuracy").to_pylist())

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


def test_a_job_that_is_not_shed_writes_all_sessions(job: VisitingJob) -> None:
    job.give(ROWS)
    assert job.check_visits(job.start_visiting(parallelism=2).wait()) == {1.0}
