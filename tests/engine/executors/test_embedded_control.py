"""A job in one process keeps what controllers see and would do of it, once a second by its clock."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.job_control import TICK_NS
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.control.start_control import RECOMMENDED, start_control
from penstock.engine.core.clock import ManualClock
from penstock.engine.dataflow.attempt_start import FIRST
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.executors.embedded_attempt import EmbeddedAttempt, EmbeddedOptions
from penstock.engine.executors.embedded_control import EmbeddedControl
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions
from penstock.model.errors import OptionError
from penstock.scheduler.action_log import EntryKind, read_log


class Probe:
    """A process that uses half of the only core there is."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def read(self) -> MachineReading:
        now_ns = self._clock.monotonic_ns()
        return MachineReading(now_ns, "here", (0,), now_ns // 2, (now_ns // 2,), 1 << 20)

    def thread_cpu_ns(self) -> int:
        return self._clock.monotonic_ns() // 2


def planned(folder: Path) -> JobPlan:
    job = ps.Job()
    ps.read_nexmark("bid", ps.NexmarkConfig(), job=job).name("bids").write_black_hole().name("out")
    return JobPlan("seen", job.plan(1), LoopOptions(batch_rows=10), folder)


def watched(folder: Path, options: ControlOptions) -> None:
    """Let a job run for four cycles of its controllers."""
    clock = ManualClock()
    plan = planned(folder)
    control = EmbeddedControl(plan, lambda plan: start_control(plan, 0, options, print), clock, Probe(clock))
    attempt = EmbeddedAttempt(plan, EmbeddedOptions(), AttemptContext(clock), FIRST, control)
    half_seconds = iter(range(8 * RECOMMENDED.period_s))

    def half_a_second_later() -> bool:
        clock.advance_ns(TICK_NS // 2)
        return next(half_seconds, None) is None

    assert attempt.proceed(half_a_second_later, None, None) is None
    control.close()


def test_what_runs_is_seen_and_load_shedding_has_all_that_it_needs(tmp_path: Path) -> None:
    log = tmp_path / "actions.jsonl"
    watched(tmp_path, ControlOptions(log))
    sheddings = list(redecide(log, "qod", {}))
    assert len(sheddings) == 4 and all(each.same for each in sheddings)
    assert sheddings[-1].decision.reason == "all queries at full accuracy"
    by_lags = [each.decision.reason for each in redecide(log, "qod", {"reading.sources": "lag maxima"})]
    assert by_lags[1:] == ["all queries at full accuracy"] * 3


def test_what_sources_are_offered_is_told_by_lag_maxima_where_that_is_wanted(tmp_path: Path) -> None:
    log = tmp_path / "actions.jsonl"
    watched(tmp_path, ControlOptions(log, Control(shed="qod", mode="act", offered="lag maxima")))
    sheddings = list(redecide(log, "qod", {"reading.sources": "lag maxima"}))
    assert [each.decision.reason for each in sheddings][1:] == ["all queries at full accuracy"] * 3
    assert all(each.same for each in sheddings)
    assert not all(each.same for each in redecide(log, "qod", {"reading.sources": "end offsets"}))


def test_a_job_keeps_its_log(tmp_path: Path) -> None:
    """The time on a core of each instance is measured, as controllers are there."""
    log = tmp_path / "actions.jsonl"
    job = EmbeddedJob(planned(tmp_path), EmbeddedOptions(control=ControlOptions(log)))
    steps = iter(range(10))
    assert job.attempt.proceed(lambda: next(steps, None) is None, None, None) is None
    assert job.build.instances[0].accounting.cpu_ns is not None
    job.stop()
    job.run()
    assert [entry.kind for entry in read_log(log)][:4] == [
        EntryKind.LOG,
        EntryKind.POLICY,
        EntryKind.SNAPSHOT,
        EntryKind.DECISION,
    ]


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    job = ps.Job()
    ps.read_memory([{"a": 1}], job=job).write_black_hole()
    with pytest.raises(OptionError, match="cannot be written"):
        job.run("seen", directory=tmp_path, action_log=tmp_path / "none" / "log")
