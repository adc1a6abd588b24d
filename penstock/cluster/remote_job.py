"""A job whose head is elsewhere, as its driver has it: shown, stopped, and waited for to its end."""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Protocol

from penstock.cluster.job_order import HeadReport, HeadState, StopOrder
from penstock.engine.executors.managers.failures import error_of
from penstock.engine.jobs.attempt import Progress
from penstock.engine.jobs.metrics import JobMetrics, no_metrics
from penstock.engine.jobs.rescale_orders import RescaleSummary
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.engine.moves.move_orders import MoveSummary
from penstock.model.control import Limits
from penstock.model.errors import PenstockError, RetryableError, WorkerLostError
from penstock.runs.steered_job import SteeredJob
from penstock.runs.steering import await_move

LOOK_S = 0.2
"""The interval at which the head is asked."""

LAST_ORDER_S = 1.0
"""How long the end waits for an order that is on its way to the head."""

AWAY_S = 3.0
"""A head that does not answer for so long is spoken of."""


class HeadCalls(SteeredJob, Protocol):
    """What a driver calls of a head; see `Head`."""

    def follow(self, since: int) -> HeadReport:
        """Return the job at this moment."""

    def stop(self, order: StopOrder) -> None:
        """Let it stop the job."""

    def savepoint(self, name: str, timeout_s: float | None = None) -> int:
        """Take a savepoint."""

    def change_limits(self, change: Limits) -> Limits:
        """Change limits."""

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleSummary:
        """Change parallelism."""

    def places(self) -> Mapping[str, str]:
        """Return places."""

    def change_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary:
        """Change memory."""

    def unfollow(self) -> None:
        """Let it leave."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class RemoteJob:
    """A job that runs elsewhere. `run` follows it in the calling thread; `stop` may be called by a signal handler."""

    has_run = True  # It runs without this process, so it can stop in order.

    def __init__(
        self,
        name: str,
        head: HeadCalls,
        connection: ExitStack | None = None,
        say: Callable[[str], None] = _say,
        monotonic_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] | None = None,
    ) -> None:
        """Follow the job that this head has. ``connection`` is closed at the end, ``say`` takes what the user reads."""
        self.name = name
        self.drained = False
        self._head = head
        self._connection = connection or ExitStack()
        self._say = say
        self._monotonic_s = monotonic_s
        self._metrics = no_metrics(name)
        self.metrics_url: str | None = None
        """Where the head serves metrics, as far as it was heard; None: nowhere."""
        self._orders: SimpleQueue[StopOrder | None] = SimpleQueue()
        self._woken = threading.Event()
        self._pause = pause or self._sleep
        self._from: tuple[int, int] = (0, 0)
        self._away_since_s: float | None = None
        self._spoke_of_absence = False
        self._refusal: PenstockError | None = None

    def run(self, progress: Progress | None = None) -> None:
        """Follow the job to its end, say what it says, and let its head leave.

        Raises:
            PenstockError: what the job failed of; or its head is gone.
        """
        with self._connection:
            thread = threading.Thread(target=self._hand_over, name=f"penstock-orders-{self.name}", daemon=True)
            thread.start()
            try:
                report = self._follow(progress)
                self._head.unfollow()
            finally:
                self._orders.put(None)
                thread.join(LAST_ORDER_S)
        self.drained = report.state is HeadState.DONE
        if report.failure is not None:
            raise error_of(report.failure, "the head actor")
        if self._refusal is not None:
            raise self._refusal

    def stop(self, *, drain: bool = False, savepoint: str | None = None) -> None:
        """Hand the order to stop over to the head, from a thread; the head finishes alone."""
        self._orders.put(StopOrder(drain, savepoint))

    def metrics(self) -> JobMetrics:
        """Return the latest snapshot that was heard."""
        return self._metrics

    def change_limits(self, change: Limits) -> Limits:
        """Lay limits over those that hold, and return all of them; see `RunningLimits.change`."""
        return self._head.change_limits(change)

    def rescale(self, parallelism: Mapping[str, int], timeout_s: float | None = None) -> RescaleSummary:
        """Let operators have so many instances, and return once these run; see `SteerableJob.rescale`."""
        return self._head.rescale(parallelism)

    @property
    def steered(self) -> SteeredJob:
        """The job as it is steered."""
        return self._head

    def places(self) -> Mapping[str, str]:
        """Return the task manager of each instance; see `SteerableJob.places`."""
        return self._head.places()

    def move(self, instance: str, task_manager: str) -> MoveSummary:
        """Let what an instance has go to a task manager, and return once it is there; see `SteerableJob.move`."""
        summary = await_move(self.steered, self._head.move(instance, task_manager)).summary
        assert summary is not None
        return summary

    def change_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary:
        """Let operators have these budgets; see `SteerableJob.change_memory`."""
        return self._head.change_memory(budgets)

    def savepoint(self, name: str, timeout_s: float | None = None) -> int:
        """Take a savepoint; see `RecoveringJob.savepoint`."""
        return self._head.savepoint(name, timeout_s)

    def _follow(self, progress: Progress | None) -> HeadReport:
        """Return the last report of the job."""
        while True:
            report = self._look()
            if report is not None:
                if progress is not None:
                    progress(report.metrics)
                if report.state.is_over:
                    return report
            self._pause(LOOK_S)

    def _look(self) -> HeadReport | None:
        """Return what the head reports; None: it is away."""
        number, line = self._from
        try:
            report = self._head.follow(line)
            if report.head != number and line:
                report = self._head.follow(0)
        except WorkerLostError:
            raise
        except RetryableError as error:
            self._speak_of_absence(error)
            return None
        self._away_since_s, self._spoke_of_absence = None, False
        self._from = report.head, report.next_line
        for text in report.lines:
            self._say(text)
        self._metrics, self.metrics_url = report.metrics, report.metrics_url
        return report

    def _speak_of_absence(self, error: RetryableError) -> None:
        now_s = self._monotonic_s()
        if self._away_since_s is None:
            self._away_since_s = now_s
        elif not self._spoke_of_absence and now_s - self._away_since_s >= AWAY_S:
            self._spoke_of_absence = True
            self._say(f"HEAD AWAY: {error}; it is asked again and again")

    def _hand_over(self) -> None:
        """Hand orders to the head, again until it has them."""
        while (order := self._orders.get()) is not None:
            while True:
                try:
                    self._head.stop(order)
                except WorkerLostError:
                    break
                except RetryableError:
                    time.sleep(LOOK_S)
                    continue
                except PenstockError as error:
                    self._refusal = error
                else:
                    self._say(f"STOPPING: the head of {self.name!r} has the order, and finishes alone")
                break
            self._woken.set()

    def _sleep(self, seconds: float) -> None:
        self._woken.wait(seconds)
        self._woken.clear()
