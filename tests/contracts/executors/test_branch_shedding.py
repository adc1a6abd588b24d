"""Keep rates of branches on every executor, changed while jobs run and fail: each query has the rows of the log."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col
from penstock.dsl.handle import Handle
from penstock.engine.dataflow.partition_sample import sampling_seed
from penstock.engine.jobs.ledger import check_ledger
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.config import LoopOptions
from penstock.model.keep_rates import STEPS, KeepRates
from penstock.shedding.kept_log import Stretch
from penstock.shedding.offset_sampling import sample_steps
from tests.contracts.executors.metered import PARTITIONS, ROWS, Metered, task_managers, until
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.test_shedding import WAYS, SheddingJob
from tests.long_cases import but_for
from tests.set_rates import Rates, set_by_attempts

HALF = KeepRates({"numbers": 0.75}, {("all", "few"): 0.25, ("all", "ids"): 0.5})
LESS = KeepRates({"numbers": 0.5}, {("all", "few"): 0.125})
SOME = KeepRates({}, {("all", "few"): 0.5})


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rates]:
    waiting = set_by_attempts(monkeypatch)
    yield waiting
    assert waiting.empty()


class PartingJob(SheddingJob):
    """Rows as they are, of which one query may lose more than the other, beyond an exchange."""

    def start_parting(self, **options: Any) -> Handle:
        job = ps.Job()
        numbers = ps.read(Metered(self.folder / "meter"), time="at", job=job).name("numbers")
        rows = numbers.filter(col("id") >= 0).name("all")
        few = rows.rebalance().select("id", "key").name("few")
        few.write_parquet(self.folder / "out" / "rows").name("rows").with_min_accuracy(0.1)
        ids = rows.select("id").name("ids")
        ids.write_parquet(self.folder / "out" / "ids").name("whole").with_min_accuracy(0.5)
        return job.start("metered", **self._options(options))

    def check_parted(self, metrics: JobMetrics) -> None:
        """Hold what each query has written, and the account, against the log; rows before it was armed have stayed."""
        log, seed = self.log(), sampling_seed("metered", LoopOptions().seed)
        self._check_whole(log)
        for query, branch in (("rows", "all>few"), ("ids", "all>ids")):
            expected: list[int] = []
            for partition in range(PARTITIONS):
                limits = np.full(ROWS, STEPS)
                for item in log:
                    if item.partition == str(partition):
                        rate = min(item.keep, item.branches.get(branch, 1.0))
                        limits[item.start : item.stop] = round(rate * STEPS)
                stay = np.flatnonzero(sample_steps(seed, str(partition), np.arange(ROWS)) < limits)
                expected += (stay * PARTITIONS + partition).tolist()
            written: list[int] = []
            for path in (self.folder / "out" / query).glob("*.parquet"):
                rows = pq.read_table(path, columns=["id", "accuracy"])
                written += rows.column("id").to_pylist()
                # Rows stand for what their branch has shed, too.
                accuracies = rows.column("accuracy").to_pylist()
                for number, accuracy in zip(rows.column("id").to_pylist(), accuracies, strict=True):
                    rate = next(
                        (
                            min(item.keep, item.branches.get(branch, 1.0))
                            for item in log
                            if item.partition == str(number % PARTITIONS)
                            and item.start <= number // PARTITIONS < item.stop
                        ),
                        1.0,
                    )
                    assert accuracy == rate
            assert sorted(written) == sorted(expected)
        check_ledger(metrics.ledger, ended=True)
        assert metrics.source_rows == PARTITIONS * ROWS

    def _check_whole(self, log: list[Stretch]) -> None:
        """Nothing is missing in the log of a partition behind its first stretch."""
        for partition in range(PARTITIONS):
            mine = [item for item in log if item.partition == str(partition)]
            assert mine and mine[-1].stop == ROWS
            assert all(before.stop == after.start for before, after in itertools.pairwise(mine))


@pytest.fixture
def job(tmp_path: Path) -> PartingJob:
    made = PartingJob(tmp_path)
    made.give(0)
    return made


def set_and_read(job: PartingJob, handle: Handle, waiting: Rates, rates: KeepRates, rows: int) -> None:
    """Set rates, and let the source give so many rows of each partition once an attempt has taken them."""
    waiting.put(rates)
    until(waiting.empty, handle)
    job.give(rows)
    until(lambda: handle.metrics().source_rows >= PARTITIONS * rows, handle)


@pytest.mark.parametrize(
    "way", but_for(WAYS, ["embedded, 1", "processes, 2"], "the other ways; those of most difference stay")
)
def test_each_query_has_the_rows_of_its_branch_by_the_log(
    job: PartingJob, rates: Rates, way: str, request: pytest.FixtureRequest
) -> None:
    if way.startswith("ray"):
        request.getfixturevalue("on_ray")
    handle = job.start_parting(checkpoint_interval="50ms", **WAYS[way])
    set_and_read(job, handle, rates, HALF, 1_000)
    set_and_read(job, handle, rates, SOME, 2_000)
    set_and_read(job, handle, rates, KeepRates(), 3_000)
    rates.put(LESS)
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    job.check_parted(metrics)
    assert {(item.keep, tuple(sorted(item.branches.items()))) for item in job.log()} == {
        (0.75, (("all>few", 0.25), ("all>ids", 0.5))),
        (1.0, (("all>few", 0.5),)),
        (1.0, ()),
        (0.5, (("all>few", 0.125),)),
    }


@pytest.mark.long("task managers die; test_shedding.py does the same with sources")
def test_after_a_task_manager_is_killed_branches_shed_as_was_said_last(job: PartingJob, rates: Rates) -> None:
    handle = job.start_parting(**{**WAYS["processes, 2"], "checkpoint_interval": "50ms"})
    set_and_read(job, handle, rates, HALF, 1_000)
    kill(task_managers()[0].pid)
    rates.put(LESS)
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 1
    job.check_parted(metrics)
    assert {item.keep for item in job.log()} == {0.75, 0.5}
