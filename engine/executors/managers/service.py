"""The service of a task manager in a process of its own: a loop around it, its messages, and the end with its head."""

import os
import socket
import threading
from collections import deque
from dataclasses import replace
from functools import partial

from penstock.engine.core.clock import SystemClock, process_cpu_ns
from penstock.engine.dataflow.worker import Outcome, Ran, Waiting
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.control_plane import ControlPlane
from penstock.engine.executors.managers.cpu_share import CpuShare
from penstock.engine.executors.managers.delivery import HEAD, Ends
from penstock.engine.executors.managers.failures import failure_of
from penstock.engine.executors.managers.host_probe import SystemProbe
from penstock.engine.executors.managers.host_process import ManagerSettings
from penstock.engine.executors.managers.manager_parts import parts_here
from penstock.engine.executors.managers.manager_shell import ManagerShell
from penstock.engine.executors.managers.next_heads import NextHead
from penstock.engine.executors.managers.plan_parcel import unpack_plan, unpack_setup
from penstock.engine.executors.managers.plan_reader import PlanReader
from penstock.engine.executors.managers.step_report import Step, StepWatch
from penstock.engine.executors.managers.task_manager import TaskManager
from penstock.engine.executors.managers.visible_files import visible_files
from penstock.engine.transport.link_set import LinkSet
from penstock.engine.transport.waiting import Waiter
from penstock.model.failpoints import failpoint
from penstock.state.kernels.jit import load_kept_kernels

LONGEST_WAIT_S = 0.5
"""How long the loop waits at most. Whoever has something for it wakes it; this is for a wake that never comes."""

REST_S = 0.02
"""How long the loop rests at a time where the CPU that it may use is used up: what the head says waits no longer."""


def serve(end: socket.socket, settings: ManagerSettings) -> None:
    """Do what the head says over a control link until it says that this process is to leave.

    When the link ends, the process does so at once, as nothing that it still does could count; or it lives a while
    without a head, for another that adopts it.
    """
    _Service(end, settings).run()


class _Service:
    def __init__(self, end: socket.socket, settings: ManagerSettings) -> None:
        self._clock = SystemClock()
        self._settings = settings
        self._end_at_once = settings.end_at_once
        self._name = settings.name
        self._share, self._resting = CpuShare(), threading.Event()
        self._probe = SystemProbe(self._share)
        self._began = settings.began or self._probe.read()
        self._waiter = Waiter()
        self._links: LinkSet[int] = LinkSet()
        self._waiter.add(self._links.fileno())
        self._inbox: deque[tuple[int, ms.ToManager]] = deque()
        self._manager: TaskManager | None = None
        self._over = self._asked_to_leave = False
        self._kernels, self._is_warm = load_kept_kernels(), False
        self._head = NextHead(settings.run, end)
        self._alone_until_ns: int | None = None
        self._plane = self._speak_with(self._head)
        settings.leave.when_given(self._leave)
        settings.heads.when_offered(self._waiter.wake)

    def run(self) -> None:
        """Turn the loop."""
        watch = StepWatch(self._step, self._say, self._clock)
        while not self._over and (self._manager is None or not self._manager.has_left):
            while self._inbox:
                self._obey(*self._inbox.popleft())
            self._look_for_head()
            if self._asked_to_leave:
                self._asked_to_leave = False
                self._say(ms.LeaveAsked())
            if self._rests():
                continue
            outcome: Outcome = Waiting(None)
            if self._manager is not None and not self._manager.has_left:
                outcome = self._manager.turn()
            if not isinstance(outcome, Ran) and not self._loads_kernel():
                self._wait(outcome)
        watch.close()
        self._plane.close()
        self._head.over.set()

    def _rests(self) -> bool:
        """Rest for a moment, and return True, if the CPU that this process may use is used up.

        What it takes to get ready is not bounded: others wait for that, and it does nothing of the job yet.
        """
        share = self._share
        if not share.is_bounded:
            return False
        now_ns = self._clock.monotonic_ns()
        if self._manager is None or not self._manager.hosts:
            share.forgive(now_ns, process_cpu_ns())
            return False
        rest_ns = min(share.rest_ns(now_ns, process_cpu_ns()), int(REST_S * 1e9))
        if not rest_ns:
            return False
        self._resting.wait(rest_ns / 1e9)
        share.throttled_ns += self._clock.monotonic_ns() - now_ns
        return True

    def _speak_with(self, head: NextHead) -> ControlPlane:
        """Return the link to a head; what is said there is of its run, and counts as long as that one leads."""
        plane = ControlPlane(self._clock, partial(self._receive, head.run), partial(self._lose, head))
        plane.add(head.end, Ends(self._settings.job, head.run, self._name, HEAD))
        return plane

    def _lose(self, head: NextHead, there: str, reason: str) -> None:
        if not self._settings.alone_s or self._manager is None:
            self._end_at_once()
        head.over.set()
        self._waiter.wake()

    def _look_for_head(self) -> None:
        """Follow a head that was offered, or see whether it is time to end without one."""
        manager = self._manager
        while (head := self._settings.heads.take()) is not None:
            if manager is None or head.run <= self._head.run:
                head.end.close()
                head.over.set()
                continue
            # Of the one before nothing counts any more, be it lost or only slow.
            before, self._head = self._head, head
            self._plane.remove(HEAD)
            self._plane.close()
            before.over.set()
            self._alone_until_ns = None
            self._plane = self._speak_with(head)
        if manager is None or not self._head.over.is_set():
            return
        now_ns = self._clock.monotonic_ns()
        if self._alone_until_ns is None:
            manager.lose_head()
            self._alone_until_ns = now_ns + int(self._settings.alone_s * 1e9)
        elif now_ns >= self._alone_until_ns and not manager.has_left:
            manager.handle(ms.Leave())

    def _obey(self, run: int, message: ms.ToManager) -> None:
        if run != self._head.run:
            return
        if isinstance(message, ms.Setup):
            self._set_up(message)
        elif isinstance(message, ms.SetCores):
            self._share.set(message.cores, self._clock.monotonic_ns(), process_cpu_ns())
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
            parts = replace(parts, probe=self._probe)
            shell = ManagerShell(self._clock, self._say, wake, self._links, self._is_interrupted, parts)
            self._manager = TaskManager(self._name, plan, setup, shell, PlanReader())
        except Exception as error:
            self._say(ms.SetupFailed(failure_of(error)))
        else:
            # Before it joins, so that its host is known when the first instances are placed.
            for reading in (self._began, self._probe.read()):
                self._say(ms.Readings(reading))
            self._say(ms.Joined(os.getpid(), self._manager.address, visible_files()))
            failpoint("manager.joined")

    def _loads_kernel(self) -> bool:
        """Load one kernel if there is nothing else to do; one that joins late is to be ready when it is needed."""
        if self._inbox or self._manager is None or self._manager.hosts or self._is_warm:
            return False
        if next(self._kernels, None) is None:
            self._is_warm = True
            self._say(ms.WarmedUp())
            return False
        return True

    def _step(self) -> Step | None:
        return None if self._manager is None else self._manager.step_now()

    def _say(self, message: ms.ToHead) -> None:
        self._plane.send(HEAD, ms.encode(message))

    def _receive(self, run: int, there: str, data: bytes) -> None:
        try:
            self._inbox.append((run, ms.decode_for_manager(data)))
        except ms.UnreadableMessageError:
            # Head and task manager are of one version: nothing that follows can be trusted.
            self._end_at_once()
        self._waiter.wake()

    def _leave(self) -> None:
        # The head decides: it may have been told to end as well.
        self._asked_to_leave = True
        self._waiter.wake()

    def _is_interrupted(self) -> bool:
        return self._head.over.is_set() or any(
            isinstance(message, ms.TakeDown | ms.Leave) for _, message in list(self._inbox)
        )

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
