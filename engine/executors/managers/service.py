"""The service of a task manager in a process of its own: a loop around it, its messages, and the end with its head."""

import os
import socket
from collections import deque

from penstock.engine.core.clock import SystemClock
from penstock.engine.dataflow.worker import Outcome, Ran, Waiting
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.control_plane import ControlPlane
from penstock.engine.executors.managers.delivery import HEAD, Ends
from penstock.engine.executors.managers.failures import failure_of
from penstock.engine.executors.managers.host_probe import SystemProbe
from penstock.engine.executors.managers.host_process import ManagerSettings
from penstock.engine.executors.managers.manager_parts import parts_here
from penstock.engine.executors.managers.plan_parcel import unpack_plan, unpack_setup, with_sinks
from penstock.engine.executors.managers.step_report import Step, StepWatch
from penstock.engine.executors.managers.task_manager import ManagerShell, TaskManager
from penstock.engine.transport.link_set import LinkSet
from penstock.engine.transport.waiting import Waiter
from penstock.model.failpoints import failpoint
from penstock.state.kernels.jit import load_kept_kernels

LONGEST_WAIT_S = 0.5
"""How long the loop waits at most. Whoever has something for it wakes it; this is for a wake that never comes."""


def serve(end: socket.socket, settings: ManagerSettings) -> None:
    """Do what the head says over a control link until it says that this process is to leave.

    The process ends at once when the link does: nothing that it still does could count.
    """
    _Service(end, settings).run()


class _Service:
    def __init__(self, end: socket.socket, settings: ManagerSettings) -> None:
        self._clock = SystemClock()
        self._settings = settings
        self._end_at_once = settings.end_at_once
        self._name = settings.name
        self._probe = SystemProbe()
        self._began = settings.began or self._probe.read()
        self._waiter = Waiter()
        self._links: LinkSet[int] = LinkSet()
        self._waiter.add(self._links.fileno())
        self._inbox: deque[ms.ToManager] = deque()
        self._manager: TaskManager | None = None
        self._over = self._asked_to_leave = False
        self._kernels = load_kept_kernels()
        self._plane = ControlPlane(self._clock, self._receive, lambda there, reason: self._end_at_once())
        self._plane.add(end, Ends(settings.job, settings.run, settings.name, HEAD))
        settings.leave.when_given(self._leave)

    def run(self) -> None:
        """Turn the loop."""
        watch = StepWatch(self._step, self._say, self._clock)
        while not self._over and (self._manager is None or not self._manager.has_left):
            while self._inbox:
                self._obey(self._inbox.popleft())
            if self._asked_to_leave:
                self._asked_to_leave = False
                self._say(ms.LeaveAsked())
            outcome: Outcome = Waiting(None)
            if self._manager is not None and not self._manager.has_left:
                outcome = self._manager.turn()
            if not isinstance(outcome, Ran) and not self._loads_kernel():
                self._wait(outcome)
        watch.close()
        self._plane.close()

    def _obey(self, message: ms.ToManager) -> None:
        if isinstance(message, ms.Setup):
            self._set_up(message)
        elif self._manager is not None:
            self._manager.handle(message)
        elif isinstance(message, ms.Leave):
            self._over = True

    def _set_up(self, message: ms.Setup) -> None:
        try:
            self._settings.check()
            setup = unpack_setup(message.packed)
            plan = unpack_plan(setup.plan)
            wake = self._waiter.wake
            here = self._settings
            parts = parts_here(self._name, plan.directory, setup, self._clock, wake, here.host, here.tls)
            shell = ManagerShell(self._clock, self._say, wake, self._links, self._is_interrupted, parts)
            self._manager = TaskManager(self._name, plan, setup, shell, lambda sinks: with_sinks(plan, sinks))
        except Exception as error:
            self._say(ms.SetupFailed(failure_of(error)))
        else:
            # Before it joins, so that its host is known when the first instances are placed.
            for reading in (self._began, self._probe.read()):
                self._say(ms.Readings(reading))
            self._say(ms.Joined(os.getpid(), self._manager.address))
            failpoint("manager.joined")

    def _loads_kernel(self) -> bool:
        """Load one kernel if there is nothing else to do; one that joins late is to be ready when it is needed."""
        if self._inbox or self._manager is None or self._manager.hosts:
            return False
        return next(self._kernels, None) is not None

    def _step(self) -> Step | None:
        return None if self._manager is None else self._manager.step_now()

    def _say(self, message: ms.ToHead) -> None:
        self._plane.send(HEAD, ms.encode(message))

    def _receive(self, there: str, data: bytes) -> None:
        try:
            self._inbox.append(ms.decode_for_manager(data))
        except ms.UnreadableMessageError:
            # Head and task manager are of one version: nothing that follows can be trusted.
            self._end_at_once()
        self._waiter.wake()

    def _leave(self) -> None:
        # The head decides: it may have been told to end as well.
        self._asked_to_leave = True
        self._waiter.wake()

    def _is_interrupted(self) -> bool:
        return any(isinstance(message, ms.TakeDown | ms.Leave) for message in list(self._inbox))

    def _wait(self, outcome: Outcome) -> None:
        manager = self._manager
        if self._inbox or (manager is not None and manager.is_touched()):
            return
        seconds = LONGEST_WAIT_S
        until_ns = outcome.until_ns if isinstance(outcome, Waiting) else None
        times = [
            time_ns for time_ns in (until_ns, None if manager is None else manager.due_ns()) if time_ns is not None
        ]
        if times:
            seconds = min(seconds, max(0.0, (min(times) - self._clock.monotonic_ns()) / 1e9))
        self._waiter.wait(seconds)
