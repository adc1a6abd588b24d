"""The launcher of task managers as actors of Ray, each of one CPU, in groups of places that are reserved together."""

import secrets
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from penstock.engine.core.contract import Clock
from penstock.engine.executors.ray.actor import TaskManagerActor
from penstock.engine.executors.ray.cluster import NAMESPACE
from penstock.engine.executors.ray.cpu_witness import CpuReading, witness_name
from penstock.engine.executors.ray.endings import ending_of
from penstock.engine.executors.ray.outliving import Outliving, left_places, survivors
from penstock.model.errors import BugError, RetryableError

PLACES_NS = 30_000_000_000
"""How long places are waited for that the cluster does not have."""

CALLS = 4
"""How many calls an actor takes at a time: that of its life, of the head that leads it, and of one that is to."""

FULL_NS = 10_000_000_000
"""For how long a cluster without room is believed to be full."""


@dataclass(frozen=True, slots=True)
class ActorCall:
    """A task manager: its actor, the call that takes as long as it lives, and what is said of the cores it uses."""

    actor: Any
    over: Any
    cpu: CpuReading


@dataclass(eq=False)
class _Places:
    """Places that were reserved together, and the task managers that have some."""

    name: str
    group: PlacementGroup
    size: int
    asked_ns: int
    are_there: bool = False
    taken: set[str] = field(default_factory=set)


class RayLauncher:
    """Starts, watches and ends the task managers of one run of a job. Its methods are called by one thread at a time.

    Nothing waits for Ray: an actor that has no place yet is started, and has not joined. If places are not there after
    `PLACES_NS`, as many are taken as the cluster has, and those without one count as ended.
    """

    def __init__(
        self,
        title: str,
        count: int,
        strategy: str,
        expect: Callable[[str], Future[socket.socket]],
        dismiss: Callable[[str], None],
        settings: Callable[[str], Any],
        clock: Clock,
        outliving: Outliving | None = None,
    ) -> None:
        """Begin ``count`` task managers, in places by a ``strategy`` of Ray; ``title`` stands before their names.

        ``expect`` returns the socket that a task manager will connect, ``dismiss`` says that none is awaited any more;
        ``settings`` makes the argument of an actor's call. What is ``outliving`` the head belongs to no process.
        """
        self._title = f"{title}, {secrets.token_hex(4)}"
        self._strategy, self._clock, self._count, self._outliving = strategy, clock, count, outliving
        self._lifetime = None if outliving is None else "detached"
        self._reserved = 0
        self._expect, self._dismiss, self._settings = expect, dismiss, settings
        self._calls: dict[str, ActorCall] = {}
        self._unplaced: dict[str, str] = {}
        self._places: list[_Places] = []
        self._full: tuple[int, str] | None = None
        self._closed = False

    def start(self, name: str) -> Future[socket.socket]:
        """Start a task manager whose name is new; return what brings this side's end of its control link.

        Raises:
            RetryableError: the cluster had no place for one a moment ago.
        """
        if self._closed or name in self._calls:
            raise BugError(f"task manager {name!r} is started twice, or after the launcher was closed")
        places = next((places for places in self._places if len(places.taken) < places.size), None)
        if places is None and len(self._calls) < self._count and not self._reserved:
            # All that are to come, so that they are together or apart as they are wanted.
            places = self._reserve(self._count - len(self._calls))
            self._places.append(places)
        if places is None:
            if self._full is not None and self._clock.monotonic_ns() < self._full[0]:
                raise RetryableError(self._full[1])
            places = self._reserve(1)
            self._places.append(places)
        end = self._expect(name)
        self._begin(name, places, CpuReading(self._expect(witness_name(name))))
        return end

    def survivors(self) -> Mapping[str, Future[socket.socket]]:
        """Offer to lead the task managers that outlived the head before; return their ends of links, as they come.

        The places that this one had left are taken over, too.
        """
        outliving = self._outliving
        if outliving is None:
            return {}
        for name, group, size in left_places(outliving.job):
            self._places.append(_Places(name, group, size, self._clock.monotonic_ns(), are_there=True))
        ends: dict[str, Future[socket.socket]] = {}
        for name, survivor in survivors(outliving.job).items():
            ends[name] = self._expect(name)
            settings = self._settings(name)
            cpu = CpuReading(self._expect(witness_name(name)))
            over = survivor.actor.follow.remote(settings.run, settings.head)
            self._calls[name] = ActorCall(survivor.actor, over, cpu)
            for places in self._places:
                if places.name == survivor.places:
                    places.taken.add(name)
        return ends

    def ended(self, name: str, patience_s: float = 0.0) -> str | None:
        """Return how one has ended, in words; None: it lives, has no place yet, or did not end in time."""
        self._await_places()
        if name in self._unplaced:
            return self._unplaced[name]
        call = self._calls[name]
        over, _ = ray.wait([call.over], timeout=patience_s)
        return ending_of(call.over) if over else None

    def cpu_ns(self, name: str) -> int | None:
        """Return the time that a process has used on any core, as its witness has said; None: it has said nothing."""
        call = self._calls.get(name)
        return None if call is None else call.cpu.read_ns()

    def forget(self, name: str) -> None:
        """Let go of one, which is killed if it lives."""
        self._dismiss(name)
        self._dismiss(witness_name(name))
        self._unplaced.pop(name, None)
        call = self._calls.pop(name, None)
        for places in self._places:
            places.taken.discard(name)
        if call is not None:
            call.cpu.close()
            if self._leads():
                ray.kill(call.actor)

    def close(self, grace_s: float) -> None:
        """Wait for those that were told to end, ``grace_s`` for all of them at most, and kill the others.

        Nothing is left of the launcher then; calling it again changes nothing.
        """
        self._closed = True
        calls = [call.over for call in self._calls.values()]
        if calls and grace_s > 0:
            ray.wait(calls, num_returns=len(calls), timeout=grace_s)
        for name in tuple(self._calls):
            self.forget(name)
        while self._places:
            places = self._places.pop()
            if self._leads():
                remove_placement_group(places.group)

    def _leads(self) -> bool:
        """Return whether the actors are this head's: of one that slept another may lead them by now."""
        return self._outliving is None or self._outliving.leads()

    def _reserve(self, count: int) -> _Places:
        self._reserved += 1
        name = f"{self._title}, places {self._reserved}"
        lasting = {} if self._lifetime is None else {"lifetime": self._lifetime}
        group = placement_group([{"CPU": 1}] * count, strategy=self._strategy, name=name, **lasting)
        return _Places(name, group, count, self._clock.monotonic_ns())

    def _begin(self, name: str, places: _Places, cpu: CpuReading) -> None:
        places.taken.add(name)
        make = ray.remote(TaskManagerActor).options(
            num_cpus=1,
            max_restarts=0,
            max_task_retries=0,
            namespace=NAMESPACE,
            name=f"{places.name}, {name}",
            lifetime=self._lifetime,
            max_concurrency=CALLS,
            scheduling_strategy=PlacementGroupSchedulingStrategy(places.group, placement_group_bundle_index=-1),
        )
        actor: Any = make.remote(name)
        self._calls[name] = ActorCall(actor, actor.serve.remote(self._settings(name)), cpu)

    def _await_places(self) -> None:
        """Look whether places are there now, and give those up that have been waited for long enough."""
        now_ns = self._clock.monotonic_ns()
        for places in [places for places in self._places if not places.are_there]:
            if placement_group_table(places.group).get("state") == "CREATED":
                places.are_there = True
            elif places.taken and now_ns - places.asked_ns >= PLACES_NS:
                self._give_up(places, now_ns)

    def _give_up(self, places: _Places, now_ns: int) -> None:
        """Take as many places as there are in the stead of some that are not to be had together."""
        asked = places.size
        self._places.remove(places)
        waiting = {name: self._calls.pop(name) for name in places.taken}
        for call in waiting.values():
            # Those that wait for a place do not end with it.
            ray.kill(call.actor)
        remove_placement_group(places.group)
        free = int(ray.available_resources().get("CPU", 0))
        placed = sorted(places.taken)[: min(free, asked - 1)]
        if placed:
            fewer = self._reserve(len(placed))
            self._places.append(fewer)
            for name in placed:
                self._begin(name, fewer, waiting[name].cpu)
        whole = int(ray.cluster_resources().get("CPU", 0))
        reason = (
            f"{asked} {'CPU was' if asked == 1 else 'CPUs were'} asked of Ray for task managers, and {free} of its "
            f"{whole} are free after {PLACES_NS // 1_000_000_000} s"
        )
        self._full = now_ns + FULL_NS, reason
        self._unplaced |= dict.fromkeys(places.taken.difference(placed), reason)
