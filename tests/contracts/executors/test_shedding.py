"""Keep rates on every executor, set while jobs run and fail: what is written is what the log says was kept."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col
from penstock.dsl.handle import Handle
from penstock.engine.checkpoint.kept_files import read_kept_files
from penstock.engine.dataflow.partition_sample import sampling_seed
from penstock.engine.dataflow.strata_draws import StrataDraws
from penstock.engine.jobs.ledger import check_ledger
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.config import LoopOptions
from penstock.model.keep_rates import STEPS, KeepRates
from penstock.shedding.kept_log import Dealing, Stretch, decode_kept_log, merged
from penstock.shedding.offset_sampling import Steps, sample_steps
from penstock.state.checkpoints.manifest import LAST_EPOCH
from penstock.state.files.local_files import LocalFiles
from tests.contracts.executors.metered import PARTITIONS, ROWS, Metered, MeteredJob, Unsteady, task_managers, until
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.ways import EXECUTORS, PROCESSES, RAY, SMALL
from tests.long_cases import but_for
from tests.set_rates import Rates, set_by_attempts

WAYS: Mapping[str, Mapping[str, Any]] = {
    "embedded, 1": {},
    "embedded, 2, small": {"parallelism": 2, **SMALL},
    "processes, 1, small": {**PROCESSES, "parallelism": 1, **SMALL},
    "processes, 2": {**PROCESSES, "parallelism": 2},
    "ray, 2, small": {**RAY, "parallelism": 2, **SMALL},
}


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rates]:
    waiting = set_by_attempts(monkeypatch)
    yield waiting
    assert waiting.empty()


@dataclass(frozen=True)
class SheddingJob(MeteredJob):
    """Rows as they are, shed between the source and their files; with strata, beside totals that want these."""

    strata: bool = False

    def start_shedding(self, *, away_at: int | None = None, **options: Any) -> Handle:
        job = ps.Job()
        numbers = ps.read(Metered(self.folder / "meter"), time="at", job=job).name("numbers")
        rows = numbers.filter(col("id") >= 0).name("all").rebalance().select("id", "key").name("some")
        rows.write_parquet(self.folder / "out" / "rows").name("rows").with_min_accuracy(0.1)
        if self.strata:
            totals = numbers.key_by("key").agg(n=ps.count()).name("totals")
            totals.write_black_hole(mode="changelog").name("black hole").with_min_accuracy(0.1, strata="partition")
        if away_at is not None:
            unsteady = Unsteady(away_at, self.folder / "came back")
            numbers.write(unsteady).name("unsteady").with_min_accuracy(0.1)
        return job.start("metered", **self._options(options))

    def check_kept(self, metrics: JobMetrics, stretches: list[Stretch]) -> None:
        """Hold the output and the account against the log; rows that came before it was armed have stayed."""
        seed = sampling_seed("metered", LoopOptions().seed)
        expected: list[int] = []
        for partition in range(PARTITIONS):
            limits = np.full(ROWS, STEPS)
            mine = [item for item in stretches if item.partition == str(partition)]
            assert mine and mine[-1].stop == ROWS
            for before, after in itertools.pairwise(mine):
                assert before.stop == after.start
                assert (before.keep, before.dealing) != (after.keep, after.dealing)
            assert all((item.dealing is not None) == (self.strata and 0.0 < item.keep < 1.0) for item in mine)
            for item in mine:
                limits[item.start : item.stop] = round(item.keep * STEPS)
            stay = np.flatnonzero(steps_of_partition(seed, str(partition), mine) < limits)
            expected += (stay * PARTITIONS + partition).tolist()
        files = (self.folder / "out" / "rows").glob("*.parquet")
        written = [row for path in files for row in pq.read_table(path, columns=["id"]).column("id").to_pylist()]
        assert sorted(written) == sorted(expected)
        check_ledger(metrics.ledger, ended=True)
        assert metrics.source_rows == PARTITIONS * ROWS
        assert metrics.ledger.shed == PARTITIONS * ROWS - len(expected)

    def log(self) -> list[Stretch]:
        return read_kept_files(LocalFiles(self.folder / "checkpoints" / "metered"), LAST_EPOCH)


def steps_of_partition(seed: int, partition: str, stretches: list[Stretch]) -> Steps:
    """Return the step of each record: by its number, or as it was dealt from where the log says that dealing began."""
    steps = sample_steps(seed, partition, np.arange(ROWS))
    draws: StrataDraws | None = None
    for item in stretches:
        if item.dealing is not None:
            if draws is None or draws.since != item.dealing.since:
                assert item.dealing == Dealing("partition", item.start)
                draws = StrataDraws(seed, partition, item.start)
            steps[item.start : item.stop] = draws.draw(np.arange(item.start, item.stop), None)
    return steps


@pytest.fixture
def job(tmp_path: Path) -> SheddingJob:
    made = SheddingJob(tmp_path)
    made.give(0)
    return made


def set_and_read(job: SheddingJob, handle: Handle, rates: Rates, keep: float, rows: int) -> None:
    """Set a rate, and let the source give so many rows of each partition once an attempt has taken it."""
    rates.put(KeepRates({"numbers": keep}))
    until(rates.empty, handle)
    job.give(rows)
    until(lambda: handle.metrics().source_rows >= PARTITIONS * rows, handle)


@pytest.mark.parametrize(
    "way", but_for(WAYS, ["embedded, 2, small", "processes, 2"], "the other ways; those of most difference stay")
)
def test_what_is_written_is_what_the_log_says_was_kept(
    job: SheddingJob, rates: Rates, way: str, request: pytest.FixtureRequest
) -> None:
    if way.startswith("ray"):
        request.getfixturevalue("on_ray")
    handle = job.start_shedding(checkpoint_interval="50ms", **WAYS[way])
    set_and_read(job, handle, rates, 0.5, 1_000)
    set_and_read(job, handle, rates, 0.25, 2_000)
    set_and_read(job, handle, rates, 1.0, 3_000)
    rates.put(KeepRates({"numbers": 0.125}))
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    log = job.log()
    job.check_kept(metrics, log)
    assert {item.keep for item in log} == {0.5, 0.25, 1.0, 0.125}


@pytest.mark.parametrize(
    "way",
    but_for(
        ["embedded, 1", "processes, 2", "ray, 2, small"],
        ["processes, 2"],
        "the other executors; the heads of sources are the same there",
    ),
)
def test_of_64_records_in_a_row_strata_keep_what_the_rate_says(
    tmp_path: Path, rates: Rates, way: str, request: pytest.FixtureRequest
) -> None:
    if way.startswith("ray"):
        request.getfixturevalue("on_ray")
    job = SheddingJob(tmp_path, strata=True)
    job.give(0)
    handle = job.start_shedding(checkpoint_interval="50ms", **WAYS[way])
    set_and_read(job, handle, rates, 0.5, 1_000)
    set_and_read(job, handle, rates, 1.0, 1_500)
    rates.put(KeepRates({"numbers": 0.25}))
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    log = job.log()
    job.check_kept(metrics, log)
    assert {item.keep for item in log} == {0.5, 1.0, 0.25}
    begun = {item.dealing.since for item in log if item.dealing is not None}
    # A rate may reach a task manager behind its first rows; that dealing begins where a stretch does is checked above.
    assert begun == {0} if way.startswith("embedded") else 0 in begun


@pytest.mark.parametrize("strata", [False, True], ids=["independent", "strata"])
@pytest.mark.parametrize("executor", ["embedded", "processes"])
def test_after_a_failure_output_and_log_agree_and_the_rates_are_those_set_last(
    tmp_path: Path, rates: Rates, executor: str, strata: bool
) -> None:
    job = SheddingJob(tmp_path, strata=strata)
    job.give(0)
    away_at = PARTITIONS * ROWS // 2 if executor == "embedded" else None
    options = {"parallelism": 2, "checkpoint_interval": "50ms", **EXECUTORS[executor]}
    handle = job.start_shedding(away_at=away_at, **options)
    set_and_read(job, handle, rates, 0.5, 1_000)
    until(lambda: job.table_rows() > 0, handle)
    if executor == "processes":
        kill(task_managers()[0].pid)
    rates.put(KeepRates({"numbers": 0.25}))
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 1
    log = job.log()
    job.check_kept(metrics, log)
    # A rate may reach a task manager behind its first rows, and these may be all that was read before it was killed.
    kept = {item.keep for item in log}
    assert kept == {0.5, 0.25} or (executor == "processes" and kept == {0.25})


@pytest.mark.parametrize(
    "executor", but_for(["embedded", "processes"], ["embedded"], "on task managers; with checkpoints stays")
)
def test_without_checkpoints_the_log_is_a_file_of_the_job(job: SheddingJob, rates: Rates, executor: str) -> None:
    handle = job.start_shedding(checkpoint_dir=None, parallelism=2, **EXECUTORS[executor])
    set_and_read(job, handle, rates, 0.5, 1_000)
    rates.put(KeepRates({"numbers": 0.25}))
    until(rates.empty, handle)
    job.give(ROWS)
    metrics = handle.wait()
    name, _, stretches = decode_kept_log((job.folder / "job" / "kept.jsonl").read_bytes())
    assert name == "metered"
    job.check_kept(metrics, merged(stretches))


@pytest.mark.parametrize("checkpoint_dir", [None, "some"])
def test_nothing_is_logged_of_a_job_that_is_not_armed(job: SheddingJob, checkpoint_dir: str | None) -> None:
    options = {} if checkpoint_dir is None else {"checkpoint_dir": job.folder / "checkpoints"}
    job.give(ROWS)
    metrics = job.start_shedding(**{"checkpoint_dir": None, **options}).wait()
    assert metrics.ledger.shed == 0 and job.table_rows() == PARTITIONS * ROWS
    assert not (job.folder / "job" / "kept.jsonl").exists()
    assert not (job.folder / "checkpoints" / "metered" / "kept").exists()
