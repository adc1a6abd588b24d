"""A job in a thread of its own: its states, its lines, orders before and after its beginning."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.cluster.hosted_job import MOST_LINES, HostedJob
from penstock.cluster.job_order import HeadState, StopOrder
from penstock.engine.executors.managers.failures import Failure, error_of
from penstock.engine.jobs.metrics import no_metrics
from penstock.model.control import Limits
from penstock.model.errors import OptionError, UserError

PATIENCE_S = 60.0


class Job:
    """A job that runs until it is stopped, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.drained = True
        self.running = threading.Event()
        self.stops: list[tuple[bool, str | None]] = []
        self._error = error
        self._over = threading.Event()

    def run(self) -> None:
        self.running.set()
        if self._error is not None:
            raise self._error
        assert self._over.wait(PATIENCE_S)

    def finish(self) -> None:
        self._over.set()

    def stop(self, *, drain: bool, savepoint: str | None) -> None:
        if savepoint == "taken":
            raise OptionError("there is a savepoint 'taken' already")
        self.stops.append((drain, savepoint))
        self.drained = False
        self.finish()

    def savepoint(self, name: str, timeout_s: float | None) -> int:
        return 7

    def change_limits(self, change: Limits) -> Limits:
        return change

    def metrics(self) -> Any:
        return no_metrics("shop")


class Ends:
    """Keeps how a job has ended."""

    def __init__(self) -> None:
        self.states: list[tuple[HeadState, Failure | None]] = []

    def ended(self, state: HeadState, failure: Failure | None) -> None:
        self.states.append((state, failure))


def hosted(ends: Ends | None = None) -> HostedJob:
    return HostedJob("shop", 5, 1, ends or Ends())


def making(job: Job) -> Callable[[Callable[[str], None]], Any]:
    return lambda say: job


def test_a_job_that_comes_to_its_end_is_done_and_says_so_to_the_next_head() -> None:
    ends, job = Ends(), Job()
    host = hosted(ends)
    assert host.report(0).state is HeadState.STARTING
    host.start(making(job))
    assert job.running.wait(PATIENCE_S)
    assert host.report(0).state is HeadState.RUNNING
    job.finish()
    assert host.over.wait(PATIENCE_S)
    assert host.report(0).state is HeadState.DONE
    assert ends.states == [(HeadState.DONE, None)]


def test_a_stop_reaches_the_job_and_it_is_stopped() -> None:
    job = Job()
    host = hosted()
    host.start(making(job))
    assert job.running.wait(PATIENCE_S)
    host.stop(StopOrder(drain=True, savepoint="friday"))
    assert host.over.wait(PATIENCE_S)
    assert job.stops == [(True, "friday")]
    assert host.report(0).state is HeadState.STOPPED


def test_a_stop_before_the_job_is_there_is_not_lost() -> None:
    job = Job()
    host = hosted()
    host.stop(StopOrder())
    host.start(making(job))
    assert host.over.wait(PATIENCE_S)
    assert job.stops == [(False, None)]


def test_a_stop_that_is_refused_leaves_the_job_running() -> None:
    job = Job()
    host = hosted()
    host.start(making(job))
    assert job.running.wait(PATIENCE_S)
    with pytest.raises(OptionError, match="'taken'"):
        host.stop(StopOrder(savepoint="taken"))
    assert host.report(0).state is HeadState.RUNNING
    job.finish()
    assert host.over.wait(PATIENCE_S)


def test_what_a_job_fails_of_is_in_its_report() -> None:
    host = hosted()
    host.start(making(Job(UserError("no such file: 'orders.csv'"))))
    assert host.over.wait(PATIENCE_S)
    report = host.report(0)
    assert report.state is HeadState.FAILED
    assert report.failure is not None
    error = error_of(report.failure, "the head actor")
    assert isinstance(error, UserError)
    assert str(error) == "no such file: 'orders.csv'"


def test_a_job_that_cannot_be_made_has_failed() -> None:
    def refuse(say: Callable[[str], None]) -> Any:
        say("WAITING: for the lease")
        raise UserError("it is in use")

    host = hosted()
    host.start(refuse)
    assert host.over.wait(PATIENCE_S)
    report = host.report(0)
    assert report.state is HeadState.FAILED
    assert report.lines == ("WAITING: for the lease",)


def test_lines_are_told_from_a_number_on_and_old_ones_are_let_go() -> None:
    host = hosted()
    for number in range(MOST_LINES + 3):
        host.say(f"line {number}")
    report = host.report(MOST_LINES + 1)
    assert report.lines == (f"line {MOST_LINES + 1}", f"line {MOST_LINES + 2}")
    assert report.next_line == MOST_LINES + 3
    kept = host.report(0).lines
    assert (len(kept), kept[0]) == (MOST_LINES, "line 3")
    assert host.report(report.next_line).lines == ()


def test_a_job_that_has_not_begun_takes_no_savepoint() -> None:
    with pytest.raises(UserError, match="'shop' is starting"):
        hosted().savepoint("friday", None)


def test_a_job_that_has_not_begun_takes_no_limits() -> None:
    with pytest.raises(UserError, match="'shop' is starting and cannot be changed now"):
        hosted().change_limits(Limits("off"))
