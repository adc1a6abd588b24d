"""A job that is asked by any way; the waits of the commands ``scale`` and ``drain``, and what they print."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from penstock.cluster.heads import Head
from penstock.commands.running_rescale import await_rescale
from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.moves.move_orders import MoveRecord
from penstock.engine.plan.free_edges import Routes
from penstock.jobs_client.client import JobClient

LOOK_S = 0.1
"""How often the job is asked how far it is."""

WARM_S = 60.0
"""How long it is waited at most until those that have come have loaded their kernels."""


class ManagedJob(Protocol):
    """A job whose task managers come and go, and whose state moves.

    Its methods raise `PenstockError` where it cannot be asked or refuses.
    """

    def name(self) -> str:
        """Return its name."""

    def known(self) -> TaskManagers:
        """Return its task managers."""

    def resize(self, count: int) -> TaskManagers:
        """Ask for so many; return those there are."""

    def drain(self, name: str) -> TaskManagers:
        """Let one go for good; return those there are."""

    def place_anew(self) -> None:
        """Let instances be placed anew, and wait until they run."""

    def move(self, instance: str, task_manager: str) -> int:
        """Ask for a move of what an instance has by keys; return its number."""

    def moves(self) -> tuple[MoveRecord, ...]:
        """Return what became of the last moves."""

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """Let instances get shares of rows that may go to any; return all that hold."""


@dataclass(frozen=True, slots=True)
class OverHttp:
    """A job that serves the HTTP API."""

    client: JobClient

    def name(self) -> str:
        """See `ManagedJob.name`."""
        return self.client.status().job

    def known(self) -> TaskManagers:
        """See `ManagedJob.known`."""
        return self.client.task_managers().task_managers

    def resize(self, count: int) -> TaskManagers:
        """See `ManagedJob.resize`."""
        return self.client.change_task_managers(wanted=count).task_managers

    def drain(self, name: str) -> TaskManagers:
        """See `ManagedJob.drain`."""
        return self.client.change_task_managers(drain=name).task_managers

    def place_anew(self) -> None:
        """See `ManagedJob.place_anew`."""
        number = self.client.rescale({}).number
        assert number is not None
        await_rescale(self.client, number)

    def move(self, instance: str, task_manager: str) -> int:
        """See `ManagedJob.move`."""
        return self.client.move(instance, task_manager)

    def moves(self) -> tuple[MoveRecord, ...]:
        """See `ManagedJob.moves`."""
        return self.client.moves().moves

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """See `ManagedJob.route`."""
        return self.client.route(operator, shares).shares


@dataclass(frozen=True, slots=True)
class ByName:
    """A job on Ray, by its head actor."""

    head: Head

    def name(self) -> str:
        """See `ManagedJob.name`."""
        return self.head.job

    def known(self) -> TaskManagers:
        """See `ManagedJob.known`."""
        return self.head.task_managers()

    def resize(self, count: int) -> TaskManagers:
        """See `ManagedJob.resize`."""
        return self.head.resize_managers(count)

    def drain(self, name: str) -> TaskManagers:
        """See `ManagedJob.drain`."""
        return self.head.drain_manager(name)

    def place_anew(self) -> None:
        """See `ManagedJob.place_anew`."""
        self.head.rescale({})

    def move(self, instance: str, task_manager: str) -> int:
        """See `ManagedJob.move`."""
        return self.head.move(instance, task_manager)

    def moves(self) -> tuple[MoveRecord, ...]:
        """See `ManagedJob.moves`."""
        return self.head.moves()

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """See `ManagedJob.route`."""
        return self.head.route(operator, shares)


def place_on(job: ManagedJob, count: int, *, quiet: bool) -> TaskManagers:
    """Let a job have so many task managers, and its instances be on them; return those there are then.

    Raises:
        PenstockError: the job cannot have so many.
    """
    shown = len(job.resize(count).live)
    more = count > shown
    while True:
        there = job.known()
        if len(there.live) != shown and not quiet:
            shown = len(there.live)
            print(f"{shown} of {count} task managers are there", file=sys.stderr)
        if there.wanted != count or (len(there.live) == count and not there.leaving):
            break
        time.sleep(LOOK_S)
    until_s = time.monotonic() + WARM_S
    while more and len(job.known().warm) < count and time.monotonic() < until_s:
        time.sleep(LOOK_S)
    if more:
        job.place_anew()
    return job.known()


def drained(job: ManagedJob, name: str) -> TaskManagers:
    """Let a task manager go for good, and wait until it has; return those there are then.

    Raises:
        PenstockError: it cannot go.
    """
    job.drain(name)
    while True:
        there = job.known()
        if name not in (*there.live, *there.leaving):
            return there
        time.sleep(LOOK_S)


def print_managers(job: str, managers: TaskManagers, *, as_json: bool) -> None:
    """Print which task managers a job has."""
    if as_json:
        print(json.dumps({"job": job, **asdict(managers)}))
        return
    live = managers.live
    print(f"{job} has {len(live)} task manager{'' if len(live) == 1 else 's'}: {', '.join(live)}")
