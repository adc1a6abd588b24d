"""Places for task managers on a Ray cluster, which are reserved together, and sentences about those it lacks."""

import socket
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group_table

from penstock.engine.executors.ray.cpu_witness import CpuReading
from penstock.engine.plan.resources import RankNeeds, Resources
from penstock.model.errors import UserError

PLACES_NS = 30_000_000_000
"""How long places are waited for that the cluster does not have."""

NO_NEEDS = RankNeeds((), "")
"""The needs of instances that need a core alone."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The task managers that a run wants: how many, in places by a ``strategy`` of Ray; ``title`` begins their names.

    The first places have what ``needs`` says beside a core, for instances that cannot do without.
    """

    title: str
    count: int
    strategy: str
    needs: RankNeeds = NO_NEEDS


@dataclass(frozen=True, slots=True)
class ActorCall:
    """A task manager: its actor, the call that takes as long as it lives, what is said of the cores it uses.

    ``end`` is that of its control link; it was begun at ``begun_ns``, or ``outlived`` the head that had begun it.
    """

    actor: Any
    over: Any
    cpu: CpuReading
    end: Future[socket.socket]
    begun_ns: int
    outlived: bool = False


@dataclass(eq=False)
class Places:
    """Places that were reserved together, and the task managers that have some, by the number of the place.

    ``ranks`` are those of which instances need something, by the number of the place. Those that are ``left`` were
    reserved by a head before. In the stead of places whose node is lost Ray looks for others.
    """

    name: str
    group: PlacementGroup
    bundles: Sequence[Resources]
    asked_ns: int
    ranks: Sequence[int] = ()
    are_there: bool = False
    left: bool = False
    taken: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self.bundles)

    def is_whole(self) -> bool:
        """Return whether the cluster has them all now."""
        return bool(placement_group_table(self.group).get("state") == "CREATED")

    def free(self, draining: Collection[str]) -> int | None:
        """Return a place that nobody has, on a node that stays; None: there is none."""
        if len(self.taken) >= self.size:
            return None
        nodes = placement_group_table(self.group).get("bundles_to_node_id", {}) if draining else {}
        taken = set(self.taken.values())
        places = range(self.size)
        return next((place for place in places if place not in taken and nodes.get(place) not in draining), None)


def check_needs(needs: RankNeeds, most: int) -> None:
    """Refuse to go on where instances cannot have what they need, on so many task managers at ``most``.

    Raises:
        UserError: naming what was asked, what there is, and for which operators.
    """
    free, whole = ray.available_resources(), ray.cluster_resources()
    asked = Counter({"CPU": float(len(needs.ranks))})
    for need in needs.ranks:
        asked.update(need)
    for name in sorted(asked, key=lambda name: (name == "CPU", name)):
        if free.get(name, 0.0) < asked[name]:
            raise UserError(
                f"{asked[name]:g} {name} asked of Ray for {needs.operators}, and {free.get(name, 0.0):g} of its "
                f"{whole.get(name, 0.0):g} are free after {PLACES_NS // 1_000_000_000} s: let the cluster have it, "
                "or change resources() or parallelism()"
            )
    if most < len(needs.ranks):
        raise UserError(
            f"{len(needs.ranks)} task managers were asked of Ray that have what {needs.operators} needs, and no nodes "
            f"have it and a core each after {PLACES_NS // 1_000_000_000} s: start fewer, or change resources()"
        )


def cpus(resources: Mapping[str, float]) -> int:
    """Return the whole CPUs of some resources."""
    return int(resources.get("CPU", 0))


def asked_text(count: int) -> str:
    """Say that so many CPUs were asked of Ray."""
    return f"{count} {'CPU was' if count == 1 else 'CPUs were'} asked of Ray"
