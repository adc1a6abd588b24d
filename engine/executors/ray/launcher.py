"""The launcher of task managers as actors of Ray, each of one CPU, in groups of places that are reserved together."""

import secrets
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from itertools import count as count_up
from typing import Any, Protocol

import ray
from ray import PlacementGroupID
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from penstock.engine.core.contract import Clock
from penstock.engine.executors.ray.actor import TaskManagerActor
from penstock.engine.executors.ray.cluster import NAMESPACE
from penstock.engine.executors.ray.cpu_witness import CpuReading, witness_name
from penstock.engine.executors.ray.endings import NODE_LOST, ending_of
from penstock.engine.executors.ray.node_drain import draining_nodes
from penstock.engine.executors.ray.outliving import Outliving, left_places, survivors
from penstock.engine.executors.ray.reserved_places import (
    PLACES_NS,
    ActorCall,
    Places,
    Wanted,
    asked_text,
    check_needs,
    cpus,
)
from penstock.engine.plan.resources import Resources
from penstock.model.errors import BugError, RetryableError

CALLS = 4
"""How many calls an actor takes at a time: that of its life, of the head that leads it, and of one that is to."""

FULL_NS = 10_000_000_000
"""For how long a cluster without room is believed to be full."""


class Joining(Protocol):
    """The place where task managers find their head; see `ControlListener`."""

    def expect(self, name: str) -> Future[socket.socket]:
        """Return the socket that the task manager of a name will connect."""

    def dismiss(self, name: str) -> None:
        """Await one no longer."""


class RayLauncher:
    """Starts, watches and ends the task managers of one run of a job. Its methods are called by one thread at a time.

    Nothing waits for Ray: an actor that has no place yet is started, and has not joined. If places are not there after
    `PLACES_NS`, as many are taken as the cluster has, and those without one count as ended; so does one whose place was
    lost with its node, if there is no other after that time.
    """

    def __init__(
        self,
        wanted: Wanted,
        join: Joining,
        settings: Callable[[str], Any],
        clock: Clock,
        outliving: Outliving | None = None,
        *,
        goes_on: bool = False,
    ) -> None:
        """Begin with none; ``join`` is where they connect to, ``settings`` makes the argument of an actor's call.

        What is ``outliving`` the head belongs to no process. With ``goes_on`` this process is an actor that was started
        anew: nodes that the cluster does not have now are not waited for.
        """
        # It stays the same when Ray starts an actor anew.
        self._owner = ray.get_runtime_context().get_actor_id()
        if goes_on and outliving is None:
            self._remove_left_groups()
        self._title = f"{wanted.title}, {secrets.token_hex(4)}"
        self._wanted, self._clock, self._outliving, self._goes_on = wanted, clock, outliving, goes_on
        self._lifetime = None if outliving is None else "detached"
        self._reserved = self._lacking = 0
        self._join, self._settings = join, settings
        self._calls: dict[str, ActorCall] = {}
        self._unplaced: dict[str, str] = {}
        # One that was begun in vain may not be quite gone when another is begun of its name.
        self._begun = count_up()
        self._needs = wanted.needs.ranks
        self._places: list[Places] = []
        self._full: tuple[int, str] | None = None
        self._closed = False

    def start(self, name: str) -> Future[socket.socket]:
        """Start a task manager whose name is new; return what brings this side's end of its control link.

        Raises:
            RetryableError: the cluster had no place for one a moment ago.
        """
        if self._closed or name in self._calls:
            raise BugError(f"task manager {name!r} is started twice, or after the launcher was closed")
        draining = draining_nodes()
        self._remove_broken()
        free = ((places, places.free(draining)) for places in self._places)
        places, place = next(((places, place) for places, place in free if place is not None), (None, None))
        if places is None and len(self._calls) < self._wanted.count and not self._reserved:
            places, place = self._reserve_all(), 0
        elif places is None and self._lacking:
            self._lacking -= 1
            lack = f"{asked_text(self._wanted.count)}, which has {cpus(ray.cluster_resources())} now"
            self._find_full(lack)
            self._unplaced[name] = lack
            return self._join.expect(name)
        if places is None or place is None:
            if self._full is not None and self._clock.monotonic_ns() < self._full[0]:
                raise RetryableError(self._full[1])
            places, place = self._reserve_one(draining), 0
        end = self._join.expect(name)
        cpu = CpuReading(self._join.expect(witness_name(name)))
        self._begin(name, places, place, cpu, end, self._clock.monotonic_ns())
        return end

    def survivors(self) -> Mapping[str, Future[socket.socket]]:
        """Offer to lead the task managers that outlived the head before; return their ends of links, as they come.

        The places that this one had left are taken over, too.
        """
        outliving, now_ns = self._outliving, self._clock.monotonic_ns()
        if outliving is None:
            return {}
        for name, group, size in left_places(outliving.job):
            bundles = [{"CPU": 1.0}] * size
            self._places.append(Places(name, group, bundles, now_ns, are_there=True, left=True))
        ends: dict[str, Future[socket.socket]] = {}
        for name, survivor in survivors(outliving.job).items():
            ends[name] = self._join.expect(name)
            settings = self._settings(name)
            cpu = CpuReading(self._join.expect(witness_name(name)))
            over = survivor.actor.follow.remote(settings.run, settings.head)
            self._calls[name] = ActorCall(survivor.actor, over, cpu, ends[name], now_ns, outlived=True)
            for places in self._places:
                if places.name == survivor.places:
                    places.taken[name] = survivor.place
        return ends

    def has_room(self) -> bool:
        """Return whether a place that was reserved is free and there, or the cluster has a core that nobody has."""
        if self._full is not None and self._clock.monotonic_ns() < self._full[0]:
            return False
        draining = draining_nodes()
        if any(places.is_whole() and places.free(draining) is not None for places in self._places):
            return True
        return cpus(ray.available_resources()) > 0

    def rank(self, name: str) -> int | None:
        """Return the rank of a task manager that has what instances need, None: it has a core alone."""
        for places in self._places:
            place = places.taken.get(name)
            if place is not None and place < len(places.ranks):
                return places.ranks[place]
        return None

    def ended(self, name: str, patience_s: float = 0.0) -> str | None:
        """Return how one has ended, in words; None: it lives, has no place yet, or did not end in time."""
        self._await_places()
        if name in self._unplaced:
            return self._unplaced[name]
        call = self._calls[name]
        over, _ = ray.wait([call.over], timeout=patience_s)
        if not over:
            return None
        ending = ending_of(call.over)
        places = next((places for places in self._places if name in places.taken), None)
        if call.end.done() or places is None or call.outlived or not ending.startswith(NODE_LOST):
            return ending
        # It never began: its place was on a node whose loss Ray has only now seen, and Ray has or looks for another.
        self._begin(name, places, places.taken[name], call.cpu, call.end, call.begun_ns)
        return None

    def cpu_ns(self, name: str) -> int | None:
        """Return the time that a process has used on any core, as its witness has said; None: it has said nothing."""
        call = self._calls.get(name)
        return None if call is None else call.cpu.read_ns()

    def forget(self, name: str) -> None:
        """Let go of one, which is killed if it lives."""
        self._join.dismiss(name)
        self._join.dismiss(witness_name(name))
        self._unplaced.pop(name, None)
        call = self._calls.pop(name, None)
        for places in self._places:
            places.taken.pop(name, None)
        if call is not None:
            call.cpu.close()
            self._kill(call)

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
            self._give_back(self._places[-1])

    def _leads(self) -> bool:
        """Return whether the actors are this head's: of one that slept another may lead them by now."""
        return self._outliving is None or self._outliving.leads()

    def _kill(self, call: ActorCall) -> None:
        if self._leads():
            ray.kill(call.actor)

    def _give_back(self, places: Places) -> None:
        self._places.remove(places)
        if self._leads():
            remove_placement_group(places.group)

    def _remove_left_groups(self) -> None:
        """Remove the groups of earlier processes of this actor, which Ray keeps as long as there is the actor."""
        for key, group in placement_group_table().items():
            if group["name"].startswith(f"{self._owner} ") and group["state"] != "REMOVED":
                remove_placement_group(PlacementGroup(PlacementGroupID.from_hex(key)))

    def _remove_broken(self) -> None:
        """Give back the places that a head before has left if some are lost and nobody has the others."""
        for places in [places for places in self._places if places.left and not places.taken]:
            if not places.is_whole():
                self._give_back(places)

    def _reserve_all(self) -> Places:
        """Ask for all that are to come, so that they are together or apart as they are wanted."""
        asked = room = self._wanted.count - len(self._calls)
        if self._goes_on:
            whole = cpus(ray.cluster_resources())
            room = max(1, len(self._needs), min(asked, whole - len(self._calls)))
        self._lacking = max(0, asked - room)
        return self._reserve(room, self._needs)

    def _reserve(self, count: int, needs: Sequence[Resources] = (), first: int = 0) -> Places:
        """Ask for places, the first of them for ranks from ``first`` on, which have what these need."""
        self._reserved += 1
        name = f"{self._title}, places {self._reserved}"
        lasting = {} if self._lifetime is None else {"lifetime": self._lifetime}
        bundles = [{"CPU": 1.0, **(needs[place] if place < len(needs) else {})} for place in range(count)]
        shown = name if self._outliving is not None else f"{self._owner} {name}"
        group = placement_group(bundles, strategy=self._wanted.strategy, name=shown, **lasting)
        now_ns = self._clock.monotonic_ns()
        self._places.append(Places(name, group, bundles, now_ns, range(first, first + len(needs))))
        return self._places[-1]

    def _reserve_one(self, draining: Collection[str]) -> Places:
        """Ask for another place, for that of a rank on a node that is drained if there is one."""
        held = {self.rank(name) for places in self._places for name in places.taken}
        rank = next((rank for rank in range(len(self._needs)) if draining and rank not in held), None)
        return self._reserve(1) if rank is None else self._reserve(1, self._needs[rank : rank + 1], rank)

    def _begin(
        self, name: str, places: Places, place: int, cpu: CpuReading, end: Future[socket.socket], begun_ns: int
    ) -> None:
        places.taken[name] = place
        bundle = dict(places.bundles[place])
        make = ray.remote(TaskManagerActor).options(
            num_cpus=bundle.pop("CPU"),
            num_gpus=bundle.pop("GPU", 0),
            resources=bundle,
            max_restarts=0,
            max_task_retries=0,
            namespace=NAMESPACE,
            name=f"{places.name}, place {place}, begun {next(self._begun)}, {name}",
            lifetime=self._lifetime,
            max_concurrency=1 if self._outliving is None else CALLS,
            scheduling_strategy=PlacementGroupSchedulingStrategy(places.group, placement_group_bundle_index=place),
        )
        actor: Any = make.remote(name)
        self._calls[name] = ActorCall(actor, actor.serve.remote(self._settings(name)), cpu, end, begun_ns)

    def _await_places(self) -> None:
        """Look whether places are there now, and give those up that have been waited for long enough."""
        now_ns = self._clock.monotonic_ns()
        for places in tuple(self._places):
            late = [name for name in places.taken if self._is_late(name, now_ns)]
            if places.are_there and not late:
                continue
            if places.is_whole():
                places.are_there = True
            elif places.are_there:
                self._give_up_lost(places, late)
            elif places.taken and now_ns - places.asked_ns >= PLACES_NS:
                self._give_up(places)

    def _is_late(self, name: str, now_ns: int) -> bool:
        """Return whether one has not connected, and might have for long."""
        call = self._calls[name]
        return not call.end.done() and now_ns - call.begun_ns >= PLACES_NS

    def _give_up_lost(self, places: Places, late: Sequence[str]) -> None:
        """Let go of those whose places were lost with their nodes; Ray looks for other places meanwhile."""
        reason = (
            f"{asked_text(len(late))} for task managers whose nodes are lost, and its "
            f"{cpus(ray.cluster_resources())} have no room after {PLACES_NS // 1_000_000_000} s"
        )
        self._find_full(reason)
        for name in late:
            self._kill(self._calls.pop(name))
            places.taken.pop(name)
            self._unplaced[name] = reason

    def _find_full(self, reason: str) -> None:
        self._full = self._clock.monotonic_ns() + FULL_NS, reason

    def _give_up(self, places: Places) -> None:
        """Take as many places as there are in the stead of some that are not to be had together."""
        asked = places.size
        waiting = {name: self._calls.pop(name) for name in places.taken}
        for call in waiting.values():
            # Those that wait for a place do not end with it.
            self._kill(call)
        self._give_back(places)
        if places.ranks and len(places.ranks) == len(self._needs):
            check_needs(self._wanted.needs, asked - 1)
        free = cpus(ray.available_resources())
        placed = sorted(places.taken, key=lambda name: (places.taken[name], name))[: min(free, asked - 1)]
        if placed:
            needs = self._needs[places.ranks[0] : places.ranks[-1] + 1] if places.ranks else []
            fewer = self._reserve(len(placed), needs, places.ranks[0] if needs else 0)
            for place, name in enumerate(placed):
                self._begin(name, fewer, place, waiting[name].cpu, waiting[name].end, fewer.asked_ns)
        reason = (
            f"{asked_text(asked)} for task managers, and {free} of its {cpus(ray.cluster_resources())} are free after "
            f"{PLACES_NS // 1_000_000_000} s"
        )
        self._find_full(reason)
        self._unplaced |= dict.fromkeys(places.taken.keys() - set(placed), reason)
