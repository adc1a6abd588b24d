"""The actor that is a task manager: a thin class around `serve`. Its process imports this before anything else.

It imports next to nothing: Ray lets the process yield to all others, until the actor has begun.
"""

import os
import signal
import socket
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

from penstock.engine.executors.managers.leave_order import LeaveOrder
from penstock.engine.executors.managers.next_heads import NextHead, NextHeads
from penstock.engine.executors.ray.priority import take_priority_of_parent
from penstock.engine.executors.ray.worker_home import WorkerHome
from penstock.model.errors import WorkerLostError

HEAD_GONE = 3
"""Exit status of a process whose head is not there any more."""


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """Settings of one task manager: its name, job and run, where its head listens, and the run's token."""

    name: str
    job: str
    run: int
    head: str
    token: bytes
    home: WorkerHome
    alone_s: float = 0.0
    """How long it lives without a head, in seconds."""


class TaskManagerActor:
    """A task manager. `serve` takes as long as it lives, `follow` as long as a head does that has not started it."""

    def __init__(self, name: str) -> None:
        """Begin with nothing; ``name`` stands before what it prints."""
        # What it imports from here on should not wait for other programs of the host.
        take_priority_of_parent()
        self._name = name
        self._heads = NextHeads()
        self._settings: ActorSettings | None = None
        self._leave = LeaveOrder()
        # Calls come by other threads, which may set no handler.
        signal.signal(signal.SIGTERM, lambda number, frame: self._leave.give())

    def __repr__(self) -> str:
        return self._name

    def serve(self, settings: ActorSettings) -> None:
        """Do what the head says until it lets this one go.

        The process ends at once when the link to the head does: nothing that it still does could count. If it may live
        alone it does so, for a head that follows, and ends when none has come. A SIGTERM is passed to the head, as of a
        process that the head has started, and so is the notice that its node is drained.

        Raises:
            WorkerLostError: the head cannot be reached.
        """
        import ray

        from penstock.engine.core.clock import SystemClock
        from penstock.engine.core.failpoint_settings import arm_from
        from penstock.engine.core.process_tuning import tune_process
        from penstock.engine.executors.managers.host_process import ManagerSettings
        from penstock.engine.executors.managers.one_core import hold_libraries_to_one_core
        from penstock.engine.executors.managers.process_name import set_process_name
        from penstock.engine.executors.ray.node_drain import DrainWatch
        from penstock.engine.executors.ray.tls_of_cluster import tls_files_here

        set_process_name(f"penstock {settings.name}")
        hold_libraries_to_one_core()
        # They import what the line above must come before.
        from penstock.engine.executors.managers.service import serve
        from penstock.engine.transport.tls import Tls

        tune_process()
        arm_from(settings.home.environment, settings.name)
        settings.home.enter()
        end = _connect(settings)
        self._settings = settings
        host = ray.util.get_node_ip_address()
        check = partial(settings.home.check, host)
        files = tls_files_here(os.environ)
        drained = DrainWatch(ray.get_runtime_context().get_node_id(), self._leave.give)
        serve(
            end,
            ManagerSettings(
                settings.name,
                settings.job,
                settings.run,
                self._leave,
                end_at_once,
                host,
                check,
                tls=None if files is None else Tls(files),
                alone_s=settings.alone_s,
                heads=self._heads,
            ),
        )
        drained.close()
        if settings.alone_s:
            from penstock.engine.executors.ray.outliving import leave_places

            leave_places(SystemClock(), threading.Event().wait)
            end_at_once()

    def follow(self, run: int, head: str) -> None:
        """Offer to be led by the head of a later run, which listens at an address; return once it leads no more.

        Raises:
            WorkerLostError: there is nothing here to be led, or the head cannot be reached.
        """
        if self._settings is None:
            raise WorkerLostError(f"{self._name} has not begun")
        other = NextHead(run, _connect(replace(self._settings, run=run, head=head)))
        self._heads.offer(other)
        other.over.wait()


def _connect(settings: ActorSettings) -> socket.socket:
    """Return a link to the head; the witness of this process makes one of its own."""
    from penstock.engine.core.clock import SystemClock
    from penstock.engine.executors.ray.control_socket import connect_to_head
    from penstock.engine.executors.ray.cpu_witness import WitnessSettings, begin_witness, has_witness, witness_name
    from penstock.engine.executors.ray.tls_of_cluster import tls_files_here
    from penstock.engine.transport.tls import Tls

    files = tls_files_here(os.environ)
    tls = None if files is None else Tls(files)
    end = connect_to_head(settings.head, settings.token, settings.name, settings.run, SystemClock(), tls)
    if has_witness():
        name, token = witness_name(settings.name), settings.token.hex()
        begin_witness(
            WitnessSettings(settings.head, token, name, settings.run, None if files is None else files.paths())
        )
    return end


def end_at_once() -> NoReturn:
    """End this process, whatever its threads do; may be called by any of them."""
    os._exit(HEAD_GONE)
