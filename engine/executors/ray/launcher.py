"""The launcher of task managers as actors of Ray, each of one CPU, in groups of places that are reserved together."""

import secrets
import socket
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import ray
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from penstock.engine.core.contract import Clock
from penstock.engine.executors.ray.actor import TaskManagerActor
from penstock.engine.executors.ray.cluster import NAMESPACE
from penstock.engine.executors.ray.cpu_witness import CpuReading, witness_name
from penstock.engine.executors.ray.endings import ending_of
from penstock.engine.executors.ray.node_drain import draining_nodes
from penstock.engine.executors.ray.outliving import Outliving, left_places, survivors
from penstock.engine.plan.resources import RankNeeds, Resources
from penstock.model.errors import BugError, RetryableError, UserError

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
    """Places that were reserved together, and the task managers that have some, by the number of the place.

    ``ranks`` are those of which instances need something, by the number of the place.
    """

    name: str
    group: PlacementGroup
    bundles: Sequence[Resources]
    asked_ns: int
    ranks: Sequence[int] = ()
    are_there: bool = False
    taken: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.bundles)

    def free(self, draining: Collection[str]) -> int | None:
        """Return a place that nobody has, on a node that stays; None: there is none."""
        nodes = placement_group_table(self.group).get("bundles_to_node_id", {}) if draining else {}
        taken = set(self.taken.values())
        places = range(self.size)
        return next((place for place in places if place not in taken and nodes.get(place) not in draining), None)


class Joining(Protocol):
    """The place where task managers find their head; see `ControlListener`."""

    def expect(self, name: str) -> Future[socket.socket]:
        """Return the socket that the task manager of a name will connect."""

    def dismiss(self, name: str) -> None:
        """Await one no longer."""


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
        join: Joining,
        settings: Callable[[str], Any],
        clock: Clock,
        outliving: Outliving | None = None,
        needs: RankNeeds | None = None,
    ) -> None:
        """Begin ``count`` task managers, in places by a ``strategy`` of Ray; ``title`` stands before their names.

        The first places have what ``needs`` says beside a core, for instances that cannot do without.

        ``join`` is where they connect to, ``settings`` makes the argument of an actor's call. What is ``outliving`` the
        head belongs to no process.
        """
        self._title = f"{title}, {secrets.token_hex(4)}"
        self._strategy, self._clock, self._count, self._outliving = strategy, clock, count, outliving
        self._lifetime = None if outliving is None else "detached"
        self._reserved = 0
        self._join, self._settings = join, settings
        self._calls: dict[str, ActorCall] = {}
        self._unplaced: dict[str, str] = {}
        self._needs, self._needy = ((), "") if needs is None else (needs.ranks, needs.operators)
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
        draining = draining_nodes()
        free = ((places, places.free(draining)) for places in self._places if len(places.taken) < places.size)
        places, place = next(((places, place) for places, place in free if place is not None), (None, None))
        if places is None and len(self._calls) < self._count and not self._reserved:
            # All that are to come, so that they are together or apart as they are wanted.
            places, place = self._reserve(self._count - len(self._calls), self._needs), 0
            self._places.append(places)
        if places is None or place is None:
            if self._full is not None and self._clock.monotonic_ns() < self._full[0]:
                raise RetryableError(self._full[1])
            places, place = self._reserve_one(draining), 0
            self._places.append(places)
        end = self._join.expect(name)
        self._begin(name, places, place, CpuReading(self._join.expect(witness_name(name))))
        return end

    def survivors(self) -> Mapping[str, Future[socket.socket]]:
        """Offer to lead the task managers that outlived the head before; return their ends of links, as they come.

        The places that this one had left are taken over, too.
        """
        outliving = self._outliving
        if outliving is None:
            return {}
        for name, group, size in left_places(outliving.job):
            bundles = [{"CPU": 1.0}] * size
            self._places.append(_Places(name, group, bundles, self._clock.monotonic_ns(), are_there=True))
        ends: dict[str, Future[socket.socket]] = {}
        for name, survivor in survivors(outliving.job).items():
            ends[name] = self._join.expect(name)
            settings = self._settings(name)
            cpu = CpuReading(self._join.expect(witness_name(name)))
            over = survivor.actor.follow.remote(settings.run, settings.head)
            self._calls[name] = ActorCall(survivor.actor, over, cpu)
            for places in self._places:
                if places.name == survivor.places:
                    places.taken[name] = survivor.place
        return ends

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
        return ending_of(call.over) if over else None

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

    def _reserve(self, count: int, needs: Sequence[Resources] = (), first: int = 0) -> _Places:
        """Ask for places, the first of them for ranks from ``first`` on, which have what these need."""
        self._reserved += 1
        name = f"{self._title}, places {self._reserved}"
        lasting = {} if self._lifetime is None else {"lifetime": self._lifetime}
        bundles = [{"CPU": 1.0, **(needs[place] if place < len(needs) else {})} for place in range(count)]
        group = placement_group(bundles, strategy=self._strategy, name=name, **lasting)
        return _Places(name, group, bundles, self._clock.monotonic_ns(), range(first, first + len(needs)))

    def _reserve_one(self, draining: Collection[str]) -> _Places:
        """Ask for another place, for that of a rank on a node that is drained if there is one."""
        held = {self.rank(name) for places in self._places for name in places.taken}
        rank = next((rank for rank in range(len(self._needs)) if draining and rank not in held), None)
        return self._reserve(1) if rank is None else self._reserve(1, self._needs[rank : rank + 1], rank)

    def _begin(self, name: str, places: _Places, place: int, cpu: CpuReading) -> None:
        places.taken[name] = place
        bundle = dict(places.bundles[place])
        make = ray.remote(TaskManagerActor).options(
            num_cpus=bundle.pop("CPU"),
            num_gpus=bundle.pop("GPU", 0),
            resources=bundle,
            max_restarts=0,
            max_task_retries=0,
            namespace=NAMESPACE,
            name=f"{places.name}, place {place}, {name}",
            lifetime=self._lifetime,
            max_concurrency=CALLS,
            scheduling_strategy=PlacementGroupSchedulingStrategy(places.group, placement_group_bundle_index=place),
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
        if places.ranks and len(places.ranks) == len(self._needs):
            self._check_needs(asked - 1)
        free = int(ray.available_resources().get("CPU", 0))
        placed = sorted(places.taken, key=lambda name: (places.taken[name], name))[: min(free, asked - 1)]
        if placed:
            needs = self._needs[places.ranks[0] : places.ranks[-1] + 1] if places.ranks else []
            fewer = self._reserve(len(placed), needs, places.ranks[0] if needs else 0)
            self._places.append(fewer)
            for place, name in enumerate(placed):
                self._begin(name, fewer, place, waiting[name].cpu)
        whole = int(ray.cluster_resources().get("CPU", 0))
        reason = (
            f"{asked} {'CPU was' if asked == 1 else 'CPUs were'} asked of Ray for task managers, and {free} of its "
            f"{whole} are free after {PLACES_NS // 1_000_000_000} s"
        )
        self._full = now_ns + FULL_NS, reason
        self._unplaced |= dict.fromkeys(places.taken.keys() - set(placed), reason)

    def _check_needs(self, most: int) -> None:
        """Refuse to go on where instances cannot have what they need, on so many task managers at ``most``.

        Raises:
            UserError: naming what was asked, what there is, and for which operators.
        """
        free, whole = ray.available_resources(), ray.cluster_resources()
        asked = Counter({"CPU": float(len(self._needs))})
        for need in self._needs:
            asked.update(need)
        for name in sorted(asked, key=lambda name: (name == "CPU", name)):
            if free.get(name, 0.0) < asked[name]:
                raise UserError(
                    f"{asked[name]:g} {name} asked of Ray for {self._needy}, and {free.get(name, 0.0):g} of its "
                    f"{whole.get(name, 0.0):g} are free after {PLACES_NS // 1_000_000_000} s: let the cluster have it, "
                    "or change resources() or parallelism()"
                )
        if most < len(self._needs):
            raise UserError(
                f"{len(self._needs)} task managers were asked of Ray that have what {self._needy} needs, and no nodes "
                f"have it and a core each after {PLACES_NS // 1_000_000_000} s: start fewer, or change resources()"
            )
