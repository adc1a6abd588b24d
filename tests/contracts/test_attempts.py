"""Every executor: the same port for checkpoints, the same way to lose regions, to get them back and to stop."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread, get_ident

import pytest

from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import CutTaken
from penstock.engine.jobs.attempt import Attempt, AttemptContext, JobPlan
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.jobs.recovery_options import RecoveryOptions
from penstock.model.config import CheckpointOptions, RestartOptions
from penstock.model.errors import WorkerLostError
from tests.contracts.attempts import EXECUTORS, LOOP, Bench, TwoRegions, executor
from tests.long_cases import but_for


@pytest.fixture(
    params=but_for(
        EXECUTORS,
        ["embedded", "simulated", "stepped"],
        "task managers for each test; tests/contracts/executors runs whole jobs on them",
    )
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bench(kind: str, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(kind, tmp_path, AttemptStart(attempt=3, last_epoch=7))
    yield made
    made.end()


def test_a_session_knows_an_attempt_by_names_and_values(bench: Bench) -> None:
    [(port, part, start)] = bench.session.begun_with
    assert port is bench.attempt and (start.attempt, start.last_epoch) == (3, 7)
    assert sorted(part.instances) == bench.names("left") + bench.names("right")
    assert sorted(part.readers) == bench.names("left", readers=True) + bench.names("right", readers=True)
    assert len(part.instances) == 12 and len(part.readers) == 4
    assert sorted(part.sources) == ["left", "right"] and sorted(part.sinks) == ["left out", "right out"]


def test_a_barrier_goes_by_the_named_sources_and_each_instance_behind_them_reports_one_cut(bench: Bench) -> None:
    bench.job.taps["left"].send(*range(20))
    bench.attempt.inject(9, {*bench.names("left", readers=True), "nobody[0]"}, last=False)
    bench.until(lambda: len(bench.session.reports) == 6)
    bench.for_a_while()
    assert bench.session.heard(attempt=3) == bench.session.heard() == bench.names("left")
    cuts = [report for _, report in bench.session.reports]
    assert all(isinstance(cut, CutTaken) and (cut.epoch, cut.ended) == (9, False) for cut in cuts)
    assert {name for cut in cuts if isinstance(cut, CutTaken) for name in cut.receipts} <= {"left out"}


def test_behind_the_last_barrier_nothing_is_read(bench: Bench) -> None:
    tap = bench.job.taps["left"]
    tap.send(*range(6))
    bench.until(lambda: bench.attempt.metrics().source_rows == 6)
    bench.attempt.inject(8, bench.names("left", readers=True), last=True)
    bench.until(lambda: len(bench.session.reports) == 6)
    tap.send(*range(6, 12))
    bench.job.taps["right"].send(*range(5))
    bench.until(lambda: bench.attempt.metrics().source_rows == 11)
    bench.for_a_while()
    assert bench.attempt.metrics().source_rows == 11


def test_sources_that_end_by_name_report_their_ends_behind_the_last_epoch(bench: Bench) -> None:
    bench.job.taps["right"].send(*range(9))
    bench.until(lambda: bench.attempt.metrics().source_rows == 9)
    bench.attempt.end_sources([*bench.names("right", readers=True), "nobody[0]"])
    bench.until(lambda: len(bench.session.reports) == 6)
    bench.for_a_while()
    assert bench.session.heard() == bench.names("right")
    for _, report in bench.session.reports:
        assert isinstance(report, CutTaken) and report.ended and report.epoch == 8


def test_a_region_that_is_taken_down_is_silent_and_comes_back_under_another_number(bench: Bench) -> None:
    attempt = bench.attempt
    attempt.take_down(bench.tasks("left"), WorkerLostError("the test took it"))
    assert attempt.is_up()
    assert bench.session.gone == bench.names("left")
    every = bench.names("left", readers=True) + bench.names("right", readers=True)
    attempt.inject(8, every, last=False)
    bench.until(lambda: len(bench.session.reports) == 6)
    bench.for_a_while()
    assert bench.session.heard(attempt=3) == bench.session.heard() == bench.names("right")
    attempt.restore(bench.tasks("left"), AttemptStart(attempt=4, last_epoch=8))
    _, part, start = bench.session.begun_with[-1]
    assert sorted(part.instances) == bench.names("left") and start.attempt == 4
    bench.session.reports.clear()
    attempt.inject(9, every, last=False)
    bench.until(lambda: len(bench.session.reports) == 12)
    assert bench.session.heard(attempt=3) == bench.names("right")
    assert bench.session.heard(attempt=4) == bench.names("left")


def test_nothing_is_up_once_all_was_taken_down(bench: Bench) -> None:
    bench.attempt.take_down(None, WorkerLostError("the test took it"))
    assert not bench.attempt.is_up()
    assert bench.session.gone == bench.names("left") + bench.names("right")


def test_cuts_are_uploaded_from_another_thread(bench: Bench) -> None:
    for side in ("left", "right"):
        bench.job.taps[side].send(*range(20))
    bench.attempt.inject(9, bench.names("left", readers=True) + bench.names("right", readers=True), last=False)
    bench.until(lambda: len(bench.session.reports) == 12)
    uploaded = bench.upload(9)
    entries = [(entry.operator, entry.instance) for part in uploaded for entry in part.entries]
    assert len(entries) == len(set(entries))
    assert {name for name, _ in entries} >= {"left", "right", "left out", "right out"}
    positions = {name: known for part in uploaded for name, known in part.positions.items()}
    assert sorted(positions) == ["left", "right"]
    assert all(sorted(known) == ["0", "1"] for known in positions.values())
    assert {name for part in uploaded for name in part.counters} == {name for name, _ in entries}


def test_cuts_that_were_given_up_are_not_uploaded(bench: Bench) -> None:
    bench.attempt.inject(9, bench.names("left", readers=True), last=False)
    bench.until(lambda: len(bench.session.reports) == 6)
    bench.attempt.give_up(9)
    assert all(not part.entries for part in bench.upload(9))


class Job:
    """A recovering job on an executor, and the attempts that it has made."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.regions = TwoRegions()
        self.stops: list[tuple[int, bool]] = []
        self.attempts: list[Attempt] = []
        chosen = executor(kind, folder)

        def make(plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> Attempt:
            made = chosen.make(plan, context, start)
            self.attempts.append(made)
            stop = made.stop

            def noted(*, drain: bool = False) -> None:
                self.stops.append((get_ident(), drain))
                stop(drain=drain)

            made.stop = noted  # type: ignore[method-assign]
            return made

        self.job = RecoveringJob(
            JobPlan("job", self.regions.plan(), LOOP, folder / "job"),
            RecoveryOptions(
                CheckpointOptions(interval_ms=10, directory=str(folder / "kept")),
                RestartOptions(first_delay_ms=1, most_delay_ms=2),
                version="1",
            ),
            make,
            chosen.environment,
        )


def test_a_failed_region_goes_on_from_the_checkpoint_and_every_row_counts_once(kind: str, tmp_path: Path) -> None:
    job = Job(kind, tmp_path)
    left, right = job.regions.taps["left"], job.regions.taps["right"]
    left.send(*range(40))
    right.send(*range(30))
    left.failure = ConnectionError("the test took it")
    left.closed = right.closed = True
    job.job.run()
    assert job.job.restarts == 1 and len(job.attempts) == 1, "the other region ran on"
    assert job.job.restored_epoch is not None and job.job.restored_epoch >= 2
    for side in ("left", "right"):
        assert job.regions.totals(side) == job.regions.expected(side)


@pytest.mark.parametrize("drain", [False, True])
def test_a_stop_is_ordered_by_the_life_cycle_in_the_job_s_own_thread(kind: str, tmp_path: Path, drain: bool) -> None:
    job = Job(kind, tmp_path)
    job.regions.taps["left"].send(*range(40))
    caller = Thread(target=lambda: job.job.stop(drain=drain))

    def progressed(metrics: object) -> None:
        if not caller.ident:
            caller.start()
            caller.join()

    if kind in ("embedded", "processes"):
        job.job.run(progressed)
    else:
        # These report no progress: what is asked for before the start is heeded as soon as an attempt runs.
        progressed(None)
        job.job.run()
    assert job.stops == [(get_ident(), drain)]
    assert job.job.session.stopped is not None and job.job.drained == drain
