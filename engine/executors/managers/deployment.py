"""A region as it is deployed on its task managers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.engine.executors.managers.places import CALLER, Places
from penstock.model.ids import TaskId


@dataclass(slots=True)
class Deployment:
    """A region on its task managers.

    ``ended`` are those that have seen all of their part end. ``lost_link`` is why a link between two of them broke, and
    until when it is awaited whether one of its ends is lost, too. At those that are ``joined`` nothing but channels of
    it may be; instances that have ``left`` host nothing any more, and of task managers that have ``retired`` nothing is
    asked.
    """

    number: int
    tasks: frozenset[TaskId]
    places: Places
    ended: set[str] = field(default_factory=set)
    lost_link: tuple[int, str] | None = None
    joined: frozenset[str] = frozenset()
    left: set[str] = field(default_factory=set)
    retired: set[str] = field(default_factory=set)

    @property
    def managers(self) -> tuple[str, ...]:
        """Where instances are, or channels, the process of the caller last: it does at once what it is told."""
        return tuple(caller_last(self.joined.union(self.places.values()) - self.retired))


def caller_last(managers: Iterable[str]) -> Sequence[str]:
    """Return task managers by their names, that of the caller's process last."""
    return sorted(managers, key=lambda name: (name == CALLER, name))
