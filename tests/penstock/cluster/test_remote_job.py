"""A job as its driver has it: what it says, what it raises, and orders that reach the head."""

import threading

import pytest

from penstock.cluster.heads import HeadAwayError
from penstock.cluster.job_order import HeadReport, HeadState, StopOrder
from penstock.cluster.remote_job import AWAY_S, RemoteJob
from penstock.engine.executors.managers.failures import failure_of
from penstock.engine.jobs.metrics import no_metrics
from penstock.engine.moves.move_orders import MoveOrder, MoveOrders, MoveRecord, MoveSummary
from penstock.model.control import Limits
from penstock.model.errors import OptionError, UserError, WorkerLostError

PATIENCE_S = 60.0


def report(
    state: HeadState, *lines: str, head: int = 1, next_line: int = 0, error: Exception | None = None
) -> HeadReport:
    failure = None if error is None else failure_of(error)
    return HeadReport("shop", state, 5, head, no_metrics("shop"), lines, next_line, failure)


class Head:
    """Answers with what the test has written down, an answer a call."""

    def __init__(self, *answers: HeadReport | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[int] = []
        self.orders: list[StopOrder] = []
        self.refusals: list[Exception] = []
        self.stopped = threading.Event()
        self.released = False

    def follow(self, since: int) -> HeadReport:
        self.asked.append(since)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self, order: StopOrder) -> None:
        if self.refusals:
            self.stopped.set()
            raise self.refusals.pop(0)
        self.orders.append(order)
        self.stopped.set()

    def savepoint(self, name: str, timeout_s: float | None = None) -> int:
        return 7

    def change_limits(self, change: Limits) -> Limits:
        return change

    def unfollow(self) -> None:
        self.released = True


def test_a_driver_follows_the_job_to_its_end_and_says_each_line_once() -> None:
    head = Head(
        report(HeadState.STARTING, "one", next_line=1),
        report(HeadState.RUNNING, "two", "three", next_line=3),
        report(HeadState.DONE, next_line=3),
    )
    said: list[str] = []
    job = RemoteJob("shop", head, say=said.append, pause=lambda seconds: None)
    job.run()
    assert said == ["one", "two", "three"]
    assert head.asked == [0, 1, 3]
    assert head.released
    assert job.drained


def test_a_stopped_job_is_not_drained() -> None:
    job = RemoteJob("shop", Head(report(HeadState.STOPPED)), pause=lambda seconds: None)
    job.run()
    assert not job.drained


def test_what_the_job_failed_of_is_raised() -> None:
    head = Head(report(HeadState.FAILED, error=UserError("no such file")))
    with pytest.raises(UserError, match="no such file"):
        RemoteJob("shop", head, pause=lambda seconds: None).run()
    assert head.released


def test_a_head_that_is_away_is_asked_again_and_spoken_of_once() -> None:
    now_s = 0.0
    said: list[str] = []

    def pause(seconds: float) -> None:
        nonlocal now_s
        now_s += AWAY_S

    away = HeadAwayError("the head of job 'shop' does not answer")
    head = Head(away, away, away, report(HeadState.DONE))
    RemoteJob("shop", head, say=said.append, monotonic_s=lambda: now_s, pause=pause).run()
    assert len([text for text in said if text.startswith("HEAD AWAY")]) == 1


def test_lines_of_a_new_head_are_asked_for_from_its_first() -> None:
    head = Head(
        report(HeadState.RUNNING, "one", "two", next_line=2),
        report(HeadState.RUNNING, head=2, next_line=1),
        report(HeadState.RUNNING, "HEAD RESTARTED", head=2, next_line=1),
        report(HeadState.DONE, head=2, next_line=1),
    )
    said: list[str] = []
    RemoteJob("shop", head, say=said.append, pause=lambda seconds: None).run()
    assert said == ["one", "two", "HEAD RESTARTED"]
    assert head.asked == [0, 2, 0, 1]


def test_a_head_that_is_gone_ends_the_driver_with_an_error() -> None:
    with pytest.raises(WorkerLostError, match="is gone"):
        RemoteJob("shop", Head(WorkerLostError("the head of job 'shop' is gone")), pause=lambda seconds: None).run()


def test_a_stop_goes_to_the_head_from_another_thread_and_is_acknowledged() -> None:
    head = Head(report(HeadState.RUNNING), report(HeadState.STOPPED))
    said: list[str] = []
    acknowledged = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        acknowledged.set()

    job = RemoteJob("shop", head, say=say, pause=lambda seconds: assert_true(acknowledged.wait(PATIENCE_S)))
    job.stop(drain=True)
    job.run()
    assert head.orders == [StopOrder(drain=True)]
    assert said[0].startswith("STOPPING: the head of 'shop' has the order")


def test_a_stop_is_tried_again_while_the_head_is_away() -> None:
    head = Head(report(HeadState.RUNNING), report(HeadState.STOPPED))
    head.refusals = [HeadAwayError("it does not answer")]
    acknowledged = threading.Event()
    job = RemoteJob(
        "shop",
        head,
        say=lambda text: acknowledged.set(),
        pause=lambda seconds: assert_true(acknowledged.wait(PATIENCE_S)),
    )
    job.stop()
    job.run()
    assert head.orders == [StopOrder()]


def test_a_stop_that_the_head_refuses_is_raised_at_the_end() -> None:
    head = Head(report(HeadState.RUNNING), report(HeadState.DONE))
    head.refusals = [OptionError("there is a savepoint 'friday' already")]
    job = RemoteJob("shop", head, pause=lambda seconds: assert_true(head.stopped.wait(PATIENCE_S)))
    job.stop(savepoint="friday")
    with pytest.raises(OptionError, match="'friday'"):
        job.run()


def assert_true(condition: bool) -> None:
    assert condition


class Steered(Head):
    """A head whose task managers and moves are those of a test."""

    job = "shop"

    def __init__(self) -> None:
        super().__init__()
        self.orders_of_moves = MoveOrders()
        self.orders_of_moves.open()

    def move(self, instance: str, task_manager: str) -> int:
        asked = self.orders_of_moves.ask(MoveOrder(instance, task_manager))
        if instance == "count[0]":
            asked.answer.set_result(MoveSummary(7, 1, 900, 3.0, 3.0, 3.0))
        else:
            asked.answer.set_exception(OptionError("there is no such instance"))
        return asked.number

    def moves(self) -> tuple[MoveRecord, ...]:
        return self.orders_of_moves.records()

    def places(self) -> dict[str, str]:
        return {"count[0]": "tm-0"}


def test_a_driver_has_state_moved_and_hears_what_that_took() -> None:
    job = RemoteJob("shop", Steered())
    assert job.places() == {"count[0]": "tm-0"}
    assert job.move("count[0]", "tm-1").state_bytes == 900
    with pytest.raises(UserError, match=r"count\[9\] has not moved: there is no such instance"):
        job.move("count[9]", "tm-1")
    assert [record.state for record in job.steered.moves()] == ["done", "failed"]
    assert job.steered.job == "shop"
