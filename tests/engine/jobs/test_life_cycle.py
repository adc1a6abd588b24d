"""The life cycle of a job: which errors restart it, how long it waits, and what a stop does at each point."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.jobs.life_cycle import (
    TRANSITIONS,
    Command,
    Elapsed,
    Event,
    Failed,
    Finish,
    GiveUp,
    JobLifeCycle,
    JobState,
    LastCommitted,
    RequestStop,
    Restore,
    Restored,
    StopRequested,
    Submitted,
    TakeDown,
    TakenDown,
)
from penstock.engine.jobs.restart_policy import SETTLED_NS, RestartPolicy, is_retryable
from penstock.model.config import RestartOptions
from penstock.model.errors import (
    BadRecordError,
    BugError,
    FatalError,
    OptionError,
    RetryableError,
    StateBudgetError,
    WorkerLostError,
)
from penstock.model.ids import TaskId

MS = 1_000_000
OPTIONS = RestartOptions(attempts=3, first_delay_ms=100, most_delay_ms=300, reset_after_ms=1_000)
LOST = WorkerLostError("the worker is gone")


def tasks(*ids: int) -> frozenset[TaskId]:
    return frozenset(TaskId(item) for item in ids)


def made(options: RestartOptions = OPTIONS) -> JobLifeCycle:
    return JobLifeCycle(RestartPolicy(options))


def running(options: RestartOptions = OPTIONS) -> JobLifeCycle:
    job = made(options)
    play(job, Submitted(0), Restored(0))
    return job


def play(job: JobLifeCycle, *events: Event) -> list[Command]:
    return [command for event in events for command in job.on(event)]


def test_a_job_runs_to_its_end() -> None:
    job = made()
    assert play(job, Submitted(0)) == [Restore(1, None)]
    assert play(job, Restored(5 * MS), Elapsed(6 * MS)) == []
    assert job.state is JobState.RUNNING
    assert play(job, LastCommitted()) == [Finish()]
    assert job.state is JobState.FINISHED


def test_a_lost_worker_restarts_what_it_ran() -> None:
    job = running()
    assert play(job, Failed(10 * MS, LOST, tasks(2))) == [TakeDown(tasks(2))]
    assert play(job, TakenDown(20 * MS)) == []
    assert (job.state, job.due_ns()) == (JobState.RESTARTING, 120 * MS)
    assert play(job, Elapsed(119 * MS)) == []
    assert play(job, Elapsed(120 * MS)) == [Restore(2, tasks(2))]
    play(job, Restored(130 * MS))
    assert (job.state, job.due_ns()) == (JobState.RUNNING, None)


@pytest.mark.parametrize(
    "error",
    [BadRecordError("row 3"), StateBudgetError("too much"), FatalError("no"), BugError("oops"), ZeroDivisionError()],
)
def test_what_would_fail_again_is_not_tried_again(error: Exception) -> None:
    job = running()
    (given_up,) = play(job, Failed(10 * MS, error), TakenDown(20 * MS))[1:]
    assert isinstance(given_up, GiveUp)
    assert given_up.error is error
    assert job.state is JobState.FAILED
    assert play(job, Failed(30 * MS, LOST), StopRequested(), Elapsed(40 * MS)) == []


def test_only_what_comes_from_outside_may_pass() -> None:
    assert all(is_retryable(error) for error in (RetryableError(), LOST, ConnectionResetError(), TimeoutError()))
    assert not any(is_retryable(error) for error in (OptionError(), FatalError(), BugError(), ValueError(), OSError()))


def test_delays_double_up_to_the_most_and_then_the_attempts_are_used_up() -> None:
    policy = RestartPolicy(RestartOptions(attempts=4, first_delay_ms=100, most_delay_ms=300))
    assert [policy.failed(0) for _ in range(5)] == [100 * MS, 200 * MS, 300 * MS, 300 * MS, None]


def test_a_worker_that_is_lost_after_a_while_is_not_waited_for() -> None:
    policy = RestartPolicy(RestartOptions(attempts=7, first_delay_ms=100, most_delay_ms=300))
    settled, failure = (SETTLED_NS, LOST), (SETTLED_NS, RetryableError("no broker"))
    soon = (SETTLED_NS - 1, LOST)
    delays = [policy.failed(*lost) for lost in (settled, settled, failure, failure, settled, soon, soon, settled)]
    assert delays == [0, 0, 100 * MS, 200 * MS, 0, 100 * MS, 200 * MS, None]


def test_no_attempts_means_no_restart_and_none_means_for_ever() -> None:
    assert RestartPolicy(RestartOptions(attempts=0)).failed(0) is None
    endless = RestartPolicy(RestartOptions())
    assert [endless.failed(0) for _ in range(200)][-1] == 60_000 * MS


def test_after_a_good_run_a_failure_counts_as_the_first() -> None:
    job = running()
    for _ in range(3):
        play(job, Failed(0, LOST), TakenDown(0), Elapsed(10_000 * MS), Restored(0))
    play(job, Failed(1_000 * MS, RetryableError()), TakenDown(1_000 * MS))
    assert job.due_ns() == 1_100 * MS


def test_a_run_that_was_too_short_does_not_forgive() -> None:
    job = running()
    for _ in range(3):
        play(job, Failed(0, LOST), TakenDown(0), Elapsed(10_000 * MS), Restored(0))
    commands = play(job, Failed(999 * MS, LOST), TakenDown(999 * MS))
    assert isinstance(commands[-1], GiveUp)
    assert "4 times" in commands[-1].reason


def test_failures_while_restoring_count_too() -> None:
    job = running()
    play(job, Failed(0, LOST), TakenDown(0), Elapsed(100 * MS), Failed(5_000 * MS, LOST), TakenDown(5_000 * MS))
    assert job.due_ns() == 5_200 * MS


def test_with_a_generator_delays_are_spread_and_repeatable() -> None:
    drawn = [RestartPolicy(OPTIONS, np.random.default_rng(seed)).failed(0) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(delay is not None and 50 * MS <= delay <= 100 * MS for delay in drawn)


def test_the_error_that_rules_a_restart_out_decides() -> None:
    job = running()
    bad = BadRecordError("row 3")
    assert play(job, Failed(0, LOST, tasks(1)), Failed(0, bad, tasks(1))) == [TakeDown(tasks(1))]
    assert play(job, TakenDown(0)) == [GiveUp(bad, "another attempt would fail in the same way")]


def test_a_second_region_that_fails_meanwhile_restarts_with_the_first() -> None:
    job = running()
    assert play(job, Failed(0, LOST, tasks(1)), Failed(0, LOST, tasks(2))) == [
        TakeDown(tasks(1)),
        TakeDown(tasks(1, 2)),
    ]
    play(job, TakenDown(0))
    assert job.state is JobState.FAILING, "the second order is not done"
    play(job, TakenDown(0))
    assert play(job, Failed(0, LOST, tasks(3)), TakenDown(0), Elapsed(200 * MS)) == [
        TakeDown(tasks(1, 2, 3)),
        Restore(2, tasks(1, 2, 3)),
    ]


def test_a_failure_that_cannot_be_placed_restarts_everything() -> None:
    job = running()
    play(job, Failed(0, LOST, tasks(1)))
    assert play(job, Failed(0, LOST)) == [TakeDown(None)]
    play(job, TakenDown(0), TakenDown(0))
    assert play(job, Elapsed(100 * MS)) == [Restore(2, None)]


def test_a_stop_is_handed_on_and_ends_with_the_last_checkpoint() -> None:
    job = running()
    assert play(job, StopRequested(savepoint="bye")) == [RequestStop(False, "bye")]
    assert job.state is JobState.STOPPING
    assert play(job, StopRequested(drain=True)) == [RequestStop(True, None)]
    assert play(job, LastCommitted(), StopRequested()) == [Finish()]


def test_a_stop_outlives_a_failure() -> None:
    job = running()
    play(job, StopRequested(), Failed(0, LOST), TakenDown(0), Elapsed(100 * MS), Restored(100 * MS))
    assert job.state is JobState.STOPPING


def test_a_stop_ends_the_wait_for_the_next_attempt() -> None:
    job = running()
    play(job, Failed(0, LOST), TakenDown(0))
    assert play(job, StopRequested()) == [RequestStop(False, None), Restore(2, None)]


def test_a_job_that_never_ran_is_tried_for_a_while_and_then_given_up() -> None:
    job = made(replace(OPTIONS, attempts=None, start_timeout_ms=1_000))
    absent = RetryableError("no broker")
    play(job, Submitted(5 * MS), Failed(200 * MS, absent), TakenDown(200 * MS))
    assert job.due_ns() == 300 * MS
    (given_up,) = play(job, Elapsed(300 * MS), Failed(1_005 * MS, absent), TakenDown(1_005 * MS))[2:]
    assert isinstance(given_up, GiveUp) and given_up.error is absent
    assert "could not be started within 1 s" in given_up.reason and "start_timeout" in given_up.reason


def test_task_managers_that_are_lost_at_a_start_may_have_taken_all_its_time_to_come_up() -> None:
    job = made(replace(OPTIONS, attempts=None, start_timeout_ms=1_000))
    play(job, Submitted(0), Failed(8_000 * MS, LOST), TakenDown(8_000 * MS))
    play(job, Elapsed(8_000 * MS), Failed(9_000 * MS, LOST), TakenDown(9_000 * MS))
    assert job.state is JobState.RESTARTING
    commands = play(job, Elapsed(9_000 * MS), Failed(9_500 * MS, LOST), TakenDown(9_500 * MS))
    assert isinstance(commands[-1], GiveUp)


def test_the_last_try_of_a_start_is_made_when_its_time_is_over() -> None:
    job = made(replace(OPTIONS, attempts=None, start_timeout_ms=1_000))
    play(job, Submitted(0))
    due_ms = []
    while job.state is not JobState.FAILED:
        now_ns = job.due_ns() or 0
        due_ms.append(now_ns // MS)
        play(job, *([Elapsed(now_ns)] if now_ns else []), Failed(now_ns, LOST), TakenDown(now_ns))
    assert due_ms == [0, 100, 300, 600, 900, 1_000]


def test_a_job_that_ran_is_not_given_up_by_the_time_for_a_start() -> None:
    job = running(replace(OPTIONS, attempts=None, start_timeout_ms=0))
    play(job, Failed(10 * MS, LOST), TakenDown(20 * MS), Elapsed(120 * MS), Failed(9_000 * MS, LOST))
    assert play(job, TakenDown(9_000 * MS)) == []
    assert job.state is JobState.RESTARTING


def test_a_stop_ends_a_job_that_never_ran_as_soon_as_nothing_is_half_done() -> None:
    waiting, failing = made(), made()
    play(waiting, Submitted(0), Failed(0, LOST), TakenDown(0))
    assert play(waiting, StopRequested()) == [Finish()]
    play(failing, Submitted(0), StopRequested(), Failed(0, LOST))
    assert play(failing, TakenDown(0)) == [Finish()]
    bad = made()
    fatal = BadRecordError("row 3")
    assert isinstance(play(bad, Submitted(0), StopRequested(), Failed(0, fatal), TakenDown(0))[-1], GiveUp)


def test_a_stop_outlives_few_failures() -> None:
    job = running(replace(OPTIONS, attempts=None))
    play(job, StopRequested())
    for _ in range(2):
        play(job, Failed(0, LOST), TakenDown(0), Elapsed(9_000 * MS), Restored(0))
        assert job.state is JobState.STOPPING
    (given_up,) = play(job, Failed(0, LOST), TakenDown(0))[1:]
    assert isinstance(given_up, GiveUp) and "failed 3 times since" in given_up.reason


def test_a_stop_before_the_start_finishes() -> None:
    assert play(made(), StopRequested()) == [Finish()]


@pytest.mark.parametrize("event", [Submitted(0), Restored(0), TakenDown(0)])
def test_the_impossible_raises_with_the_events_before(event: Event) -> None:
    job = running()
    with pytest.raises(BugError) as raised:
        job.on(event)
    assert any("Restore(attempt=1" in note for note in raised.value.__notes__)


@pytest.mark.parametrize(
    "options", [{"attempts": -1}, {"first_delay_ms": 10, "most_delay_ms": 5}, {"reset_after_ms": 0}, {"attempts": True}]
)
def test_impossible_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(OptionError):
        RestartOptions(**options)


def test_every_state_has_a_row_and_every_state_but_the_first_is_reached() -> None:
    assert TRANSITIONS.keys() == set(JobState)
    reached = {state for row in TRANSITIONS.values() for follows in row.values() for state in follows}
    assert reached == set(JobState)


ERRORS = (LOST, RetryableError("later"), BadRecordError("row 3"))
STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3_000)), max_size=80)


@settings(max_examples=200)
@given(STEPS)
def test_attempts_grow_one_by_one_and_every_order_is_answered_for(steps: Sequence[tuple[int, int]]) -> None:
    """Every legal history: restores only after everything is taken down, no restart once the job is given up."""
    job = made()
    now_ns, restores, down = 0, 0, 0
    restoring = False
    finished: list[Command] = []
    for kind, choice in [(5, 0), *steps]:
        now_ns += choice * MS // 10
        event: Event = Elapsed(now_ns)
        struck = None if choice % 5 == 0 else tasks(choice % 3)
        if kind == 0 and job.state not in (JobState.CREATED, JobState.FINISHED):
            event = Failed(now_ns, ERRORS[choice % 20 // 10 * (choice % 3)], struck)
        elif kind == 1:
            event = StopRequested(drain=choice % 2 == 0)
        elif kind == 2 and down:
            event, down = TakenDown(now_ns), down - 1
        elif kind == 3 and restoring:
            event, restoring = Restored(now_ns), False
        elif kind == 4 and job.state in (JobState.RUNNING, JobState.STOPPING) and choice % 4 == 0:
            event = LastCommitted()
        elif kind == 5 and job.state is JobState.CREATED:
            event = Submitted(0)
        for command in job.on(event):
            assert not finished, "nothing is ordered after the end"
            match command:
                case Restore():
                    assert command.attempt == restores + 1
                    assert down == 0
                    restores, restoring = command.attempt, True
                case TakeDown():
                    down, restoring = down + 1, False
                case Finish() | GiveUp():
                    finished.append(command)
        assert bool(finished) == (job.state in (JobState.FINISHED, JobState.FAILED))
        assert (job.due_ns() is not None) == (job.state is JobState.RESTARTING)
