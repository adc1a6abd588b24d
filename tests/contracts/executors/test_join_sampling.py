"""Rates of both sides of joins on every executor, changed while jobs run, fail and go on: pairs are those of DuckDB."""

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
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.test_shedding import WAYS, SheddingJob
from tests.long_cases import but_for
from tests.set_rates import Rates, set_by_attempts

USERS = 211
SOURCES = {"views": "viewed", "clicks": "clicked"}
"""The sources, left and right, and what stands between each and the joins."""

JOINS = ("met", "near")
WINDOW_US, NEAR_US = 1_000_000, 200_000
LEFT_OF, RIGHT_OF = f"id // {5 * PARTITIONS} * 31 % {USERS}", f"id // {2 * PARTITIONS} * 17 % {USERS}"


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rates]:
    waiting = set_by_attempts(monkeypatch)
    yield waiting
    assert waiting.empty()


def rate(left: float, right: float) -> KeepRates:
    keeps = dict(zip(SOURCES.values(), (left, right), strict=True))
    return KeepRates({}, {(side, join): keep for side, keep in keeps.items() for join in JOINS if keep < 1.0})


class MeetingJob(SheddingJob):
    """What users viewed and clicked: both within a second's window, and near each other."""

    def start_meeting(self, *, minimum: float = 0.1, **options: Any) -> Handle:
        job = ps.Job()
        read = [ps.read(Metered(self.folder / "meter"), time="at", job=job).name(name) for name in SOURCES]
        views = read[0].select("id", "at", user=col("id") // (5 * PARTITIONS) * 31 % USERS).name("viewed")
        clicks = read[1].select("at", click="id", user=col("id") // (2 * PARTITIONS) * 17 % USERS).name("clicked")
        met = views.join(clicks, on="user", window=ps.tumbling("1s")).name("met")
        met.select("id", "click").write_parquet(self.folder / "out" / "met").name("pairs").with_min_accuracy(minimum)
        near = views.interval_join(clicks, on="user", between=("-200ms", "200ms")).name("near")
        pairs = near.select("id", "click")
        pairs.write_parquet(self.folder / "out" / "near").name("closer").with_min_accuracy(minimum)
        odd = met.select("id", "window_end", odd=col("user") % 2).name("odd")
        sums = odd.key_by("odd").window(ps.tumbling("10s")).agg(pairs=ps.count(), ids=ps.sum_("id")).name("sums")
        sums.write_parquet(self.folder / "out" / "sums").name("summed").with_min_accuracy(minimum)
        return job.start("metered", **self._options(options))

    def set_and_read(self, handle: Handle, waiting: Rates, rates: KeepRates, rows: int) -> None:
        waiting.put(rates)
        until(waiting.empty, handle)
        self.give(rows)
        until(lambda: handle.metrics().source_rows >= 2 * PARTITIONS * rows, handle)

    def check_pairs(self, metrics: JobMetrics) -> set[float]:
        """Hold what was written against all pairs; return the accuracies of those in windows."""
        said = {join: self._check_join(join) for join in JOINS}
        self._check_sums(said["met"])
        check_ledger(metrics.ledger, ended=True)
        assert metrics.source_rows == 2 * PARTITIONS * ROWS
        return set(said["met"].values())

    def _check_join(self, join: str) -> dict[tuple[int, int], float]:
        """Check the pairs of a join, and return what each says of its accuracy."""
        table = self._written(join)
        assert not any(table.column("biased").to_pylist())
        ids = zip(table.column("id").to_pylist(), table.column("click").to_pylist(), strict=True)
        said = dict(zip(ids, table.column("accuracy").to_pylist(), strict=True))
        assert len(said) == table.num_rows > 0
        expected = self._expected(join)
        limits = [self._limits(source, join) for source in SOURCES]
        least = min(int(side.min()) for side in limits)
        seed = sampling_seed("metered", LoopOptions().seed)
        users = pa.array([user for _, _, user in expected])
        steps = key_steps(seed, KeyCodec([pa.int64()]).hash([users]))
        remaining = dict(said)
        for (view, click, _), step in zip(expected, steps.tolist(), strict=True):
            accuracy = remaining.pop((view, click), None)
            assert accuracy is not None or step >= least
            if accuracy is not None:
                own = [
                    side[number % PARTITIONS, number // PARTITIONS]
                    for side, number in zip(limits, (view, click), strict=True)
                ]
                assert step < accuracy * STEPS <= min(own)
        assert not remaining, "pairs that there are not without shedding"
        return said

    def _check_sums(self, said: dict[tuple[int, int], float]) -> None:
        """Hold totals over pairs against those that were written, each of which stands for 1 / accuracy."""
        estimated: dict[tuple[int, int], list[float]] = {}
        for (view, _), accuracy in said.items():
            user, window = view // (5 * PARTITIONS) * 31 % USERS, view // PARTITIONS // 1_000
            sums = estimated.setdefault((user % 2, window), [0.0, 0.0, 0.0])
            for place, number in enumerate((1, view)):
                sums[place] += number / accuracy
            sums[2] += 1
        table = self._written("sums")
        rows = table.append_column("first", table.column("window_start").cast(pa.int64())).to_pylist()
        assert len(rows) == len(estimated)
        for row in rows:
            count, total, kept = estimated[row["odd"], (row["first"] - BEGIN_US) // 10_000_000]
            assert abs(row["pairs"] - count) <= 0.5 and row["ids"] == pytest.approx(total, abs=0.51)
            assert row["accuracy"] == pytest.approx(kept / count) and not row["biased"]
            if row["accuracy"] == 1.0:
                assert row["pairs_low"] == row["pairs"] == row["pairs_high"]
            elif row["ids_low"] is not None:
                assert row["ids_low"] < row["ids"] < row["ids_high"]

    def _written(self, name: str) -> pa.Table:
        return pa.concat_tables([pq.read_table(path) for path in (self.folder / "out" / name).glob("*.parquet")])

    def _limits(self, source: str, join: str) -> np.ndarray:
        """Return the rate in steps at which each row of each partition of a source was read for a join, by the log."""
        limits = np.full((PARTITIONS, ROWS), STEPS)
        for item in self.log():
            if item.source == source:
                keep = item.branches.get(f"{SOURCES[source]}>{join}", 1.0)
                limits[int(item.partition), item.start : item.stop] = keep * STEPS
        return limits

    def _expected(self, join: str) -> list[tuple[int, int, int]]:
        given = pa.Table.from_batches([rows_of(number, 0, ROWS) for number in range(PARTITIONS)])
        met = f"(l.time_us // {WINDOW_US}) = (r.time_us // {WINDOW_US})"
        near = f"r.time_us BETWEEN l.time_us - {NEAR_US} AND l.time_us + {NEAR_US}"
        with duckdb.connect(config={"threads": 1}) as con:
            con.register("given", given)
            return con.sql(
                f"""
                WITH l AS (SELECT id, epoch_us("at") AS time_us, {LEFT_OF} AS who FROM given),
                r AS (SELECT id, epoch_us("at") AS time_us, {RIGHT_OF} AS who FROM given)
                SELECT l.id, r.id, l.who FROM l JOIN r ON l.who = r.who AND {met if join == "met" else near}
                """
            ).fetchall()


@pytest.fixture
def job(tmp_path: Path) -> MeetingJob:
    made = MeetingJob(tmp_path)
    made.give(0)
    return made


@pytest.mark.parametrize(
    "way",
    but_for(WAYS, ["processes, 2"], "the other ways; embedded jobs are tried below"),
)
def test_pairs_are_those_of_their_keys_whatever_the_rates_of_both_sides_were(
    job: MeetingJob, rates: Rates, way: str, request: pytest.FixtureRequest
) -> None:
    if way.startswith("ray"):
        request.getfixturevalue("on_ray")
    handle = job.start_meeting(checkpoint_interval="50ms", **WAYS[way])
    job.set_and_read(handle, rates, rate(0.5, 1.0), 1_000)
    job.set_and_read(handle, rates, rate(0.25, 0.125), 2_000)
    job.set_and_read(handle, rates, rate(1.0, 1.0), 3_000)
    rates.put(rate(1.0, 0.75))
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    # Task managers take rates one by one, when they have read on at those before.
    said = job.check_pairs(metrics)
    assert said <= {0.5, 0.25, 0.125, 0.75, 1.0} and len(said) > 2
    assert metrics.ledger.shed > 0
    named = {edge for item in job.log() for edge in item.branches}
    assert named == {f"{side}>{join}" for side in SOURCES.values() for join in JOINS}


@pytest.mark.parametrize(
    ("before", "after"), [(1, 2), pytest.param(2, 1, marks=pytest.mark.long("the other way, tried with operators"))]
)
def test_a_join_that_sheds_by_keys_goes_on_at_another_parallelism(
    job: MeetingJob, rates: Rates, before: int, after: int
) -> None:
    handle = job.start_meeting(checkpoint_interval="50ms", parallelism=before)
    job.set_and_read(handle, rates, rate(0.25, 0.5), 1_530)
    handle.stop()
    handle = job.start_meeting(checkpoint_interval="50ms", parallelism=after)
    job.set_and_read(handle, rates, rate(1.0, 1.0), 1_560)
    rates.put(rate(1.0, 0.5))
    until(rates.empty, handle)
    job.give(ROWS)
    assert job.check_pairs(handle.wait()) == {0.25, 0.5}


@pytest.mark.long("a job of processes that one is killed of; operators are restarted in property tests")
def test_after_a_task_manager_is_killed_pairs_are_those_of_their_keys(job: MeetingJob, rates: Rates) -> None:
    handle = job.start_meeting(**{**WAYS["processes, 2"], "checkpoint_interval": "50ms"})
    job.set_and_read(handle, rates, rate(0.5, 0.75), 1_500)
    kill(task_managers()[0].pid)
    rates.put(rate(0.25, 0.5))
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 1
    # What an attempt reads before it is told the rates is whole, and not in the log.
    assert {0.25} <= job.check_pairs(metrics) <= {0.75, 0.5, 0.25, 1.0}


def test_without_its_contract_a_join_does_not_go_on_from_rows_of_a_sample(job: MeetingJob, rates: Rates) -> None:
    handle = job.start_meeting(checkpoint_interval="50ms")
    job.set_and_read(handle, rates, rate(0.5, 0.5), 1_530)
    handle.stop()
    with pytest.raises(PenstockError, match=r"rows that wait in '(met|near)' were dropped by their keys"):
        job.start_meeting(minimum=1.0).wait()
