"""The surroundings of a task manager, by which it speaks, waits and reaches others."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.engine.core.contract import Clock
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.manager_parts import ManagerParts
from penstock.engine.transport.link_set import LinkSet


@dataclass(frozen=True, slots=True)
class ManagerShell:
    """The surroundings of a task manager.

    ``say`` takes what it says to the head, ``wake`` makes its thread call `turn` soon, from any thread.
    ``is_interrupted`` returns whether a deployment that waits for others is to be given up. One that ``keeps_errors``
    is in the process of whoever it tells, which can have them as they were `raised`.
    """

    clock: Clock
    say: Callable[[ms.ToHead], None]
    wake: Callable[[], None]
    links: LinkSet[int]
    is_interrupted: Callable[[], bool]
    parts: ManagerParts
    keeps_errors: bool = False
