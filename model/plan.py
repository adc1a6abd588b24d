"""Decisions of controllers: frozen values, each with its reason and the figures that it rests on.

Tasks, edges, instances, machines, queries and applications are rows of the snapshot that was decided on. Doing nothing
is a decision too (docs/design/controllers.md 3).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

Numbers = Mapping[str, float]
"""The figures that a decision rests on, by name, units last."""


class Cause(Enum):
    """The cause why nothing changes: a policy wants nothing else, it could not see, or it is not its time."""

    DECIDED = "decided"
    NOT_MEASURED = "not measured"
    NOT_DUE = "not due"


@dataclass(frozen=True, slots=True)
class NoChange:
    """The decision to do nothing; what an earlier one has set stays unless this was ``DECIDED``."""

    reason: str
    numbers: Numbers = field(default_factory=dict)
    cause: Cause = Cause.DECIDED


def not_measured(what: str) -> NoChange:
    """Return the decision of who lacks a figure; the reason names it."""
    return NoChange(f"not measured: {what}", cause=Cause.NOT_MEASURED)


@dataclass(frozen=True, slots=True)
class Move:
    """An instance starts on ``machine``; ``flagged``: it was stopped on its last machine, and must not return there."""

    instance: int
    machine: int
    flagged: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Instances start on machines."""

    moves: tuple[Move, ...]
    reason: str
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Demand:
    """A task needs more instances than it has, which shedding hides: ``cores`` that it could use in all."""

    task: int
    cores: float
    reason: str


@dataclass(frozen=True, slots=True)
class ShedPlan:
    """The keep rates of all shedders, and the moves that make minimums possible.

    ``source_keep`` by source task and ``edge_keep`` by edge: the probability in [0, 1] that a row is kept; those that
    are not named keep all. ``desired_accuracy`` by query, in [0, 1]. ``failed``: machines on which minimums cannot be
    met and from which nothing could be moved ("rescheduling failed").
    """

    source_keep: Mapping[int, float]
    edge_keep: Mapping[int, float]
    desired_accuracy: tuple[float, ...]
    reason: str
    moves: tuple[Move, ...] = ()
    demands: tuple[Demand, ...] = ()
    failed: tuple[int, ...] = ()
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskSize:
    """A task's new parallelism, and the memory of each instance; None: unchanged."""

    task: int
    parallelism: int
    memory_level: int | None = None
    managed_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BucketMove:
    """A bucket of a keyed task gets a new owner, the instance ``number``."""

    task: int
    bucket: int
    number: int


@dataclass(frozen=True, slots=True)
class Route:
    """The distribution of a free edge's rows among the consumer's instances: shares that add up to 1."""

    edge: int
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ApplicationSize:
    """An application's new allocation; None: unchanged."""

    application: int
    cores: float | None = None
    heap_bytes: float | None = None
    memory_bytes: float | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class CoreNeed:
    """The ``cores`` that an application's instances need together: the least that it is to have now.

    ``spreads``: its instances are placed anew, so that they lie on so many, where none of its tasks gets others;
    otherwise it goes with sizes of its tasks, and is no change of its own.
    """

    application: int
    cores: float
    spreads: bool = False


@dataclass(frozen=True, slots=True)
class RescalePlan:
    """Parallelism, memory, owners of buckets and routes change, or instances are spread; one action."""

    reason: str
    tasks: tuple[TaskSize, ...] = ()
    buckets: tuple[BucketMove, ...] = ()
    routes: tuple[Route, ...] = ()
    applications: tuple[ApplicationSize, ...] = ()
    numbers: Numbers = field(default_factory=dict)
    cores: tuple[CoreNeed, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        spread = any(need.spreads for need in self.cores)
        return not (self.tasks or self.buckets or self.routes or self.applications or spread)


Decision = Placement | ShedPlan | RescalePlan | NoChange


def as_dict(decision: Decision) -> dict[str, Any]:
    """Return a decision as plain data for JSON, with its kind; equal decisions give equal data.

    A cause is left out: the reason says it. So are cores that nobody asks for.
    """
    plain = {"kind": type(decision).__name__, **asdict(decision)}
    plain.pop("cause", None)
    if not plain.get("cores", True):
        plain.pop("cores")
    return plain
