"""What outlives a head on Ray: task managers and their places, found by their names by the head that follows.

The names of places and actors begin with that of the job, whose head is a named actor: there is one at a time.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.engine.core.contract import Clock
from penstock.engine.executors.ray.cluster import NAMESPACE

LAST_S = 10.0
"""How long the last task manager of a group waits for the ends of the others."""

_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Outliving:
    """The task managers of a head that may be lost and followed, of one run of a job.

    They live ``alone_s`` seconds without a head. ``token`` is known to all runs of the job. A head that ``follows``
    others looks for what they have left. ``leads`` returns whether no other head has followed this one: who slept, and
    was taken for lost, must end nothing.
    """

    job: str
    alone_s: float
    token: bytes
    follows: bool
    leads: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Survivor:
    """A task manager that lives: its name, the group that its place is of and the number there, its run, its actor."""

    name: str
    places: str
    place: int
    run: int
    actor: Any


def job_title(job: str, run: int) -> str:
    """Return how the names of places and actors begin that outlive the head of a run."""
    return f"{job} (head actor), run {run}"


def survivors(job: str) -> Mapping[str, Survivor]:
    """Return the task managers of a job's heads that live, by name; of one name that of the latest run.

    The others of that name are killed.
    """
    import ray

    living: dict[str, Survivor] = {}
    named = re.compile(rf"(?P<places>{_title(job)}, places \d+), place (?P<place>\d+), begun \d+, (?P<name>tm-\d+)")
    matches = [match for match in map(named.fullmatch, _actors()) if match]
    for match in sorted(matches, key=lambda match: int(match["run"])):
        try:
            actor = ray.get_actor(match[0], namespace=NAMESPACE)
        except ValueError:
            # It has ended meanwhile.
            continue
        name = match["name"]
        if name in living:
            ray.kill(living[name].actor)
        living[name] = Survivor(name, match["places"], int(match["place"]), int(match["run"]), actor)
    return living


def left_places(job: str) -> Iterator[tuple[str, Any, int]]:
    """Yield the groups of places that heads of a job have left: the name, the group, the number of places."""
    import ray
    from ray.util.placement_group import PlacementGroup, placement_group_table

    named = re.compile(rf"{_title(job)}, places \d+")
    for entry in placement_group_table().values():
        if named.fullmatch(entry["name"]) and entry["state"] != "REMOVED":
            group = PlacementGroup(ray.PlacementGroupID(bytes.fromhex(entry["placement_group_id"])))
            yield entry["name"], group, len(entry["bundles"])


def remove_left(job: str) -> None:
    """End all task managers of a job's heads, and give their places back. Its head is gone for good."""
    import ray
    from ray.util.placement_group import remove_placement_group

    for survivor in survivors(job).values():
        ray.kill(survivor.actor)
    for _, group, _ in left_places(job):
        remove_placement_group(group)


def leave_places(clock: Clock, pause: Callable[[float], object]) -> None:
    """Give the places back if this task manager is the last one that has some of the group: its process ends.

    Of those that end at once the one whose name comes first waits for the others; ``pause`` waits so many seconds.
    """
    import ray
    from ray.util.placement_group import get_current_placement_group, remove_placement_group

    mine, group = ray.get_runtime_context().get_actor_name(), get_current_placement_group()
    if mine is None or group is None:
        return
    places = mine.rsplit(", ", 3)[0]
    until_ns = clock.monotonic_ns() + int(LAST_S * 1e9)
    while clock.monotonic_ns() < until_ns:
        living = sorted(name for name in _actors() if name.startswith(f"{places}, "))
        if living in ([], [mine]):
            remove_placement_group(group)
            return
        if living[0] != mine:
            return
        pause(_LOOK_S)


def _title(job: str) -> str:
    return rf"{re.escape(job)} \(head actor\), run (?P<run>\d+), [0-9a-f]{{8}}"


def _actors() -> list[str]:
    """Return the names of all actors of ours that have not ended."""
    from ray.util import list_named_actors

    return [entry["name"] for entry in list_named_actors(all_namespaces=True) if entry["namespace"] == NAMESPACE]
