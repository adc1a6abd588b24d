"""Messages between a session of checkpoints and the instances of an attempt: names and values, no live objects.

The session asks by a `CheckpointPort`; what instances contribute comes to it as reports, by whatever way and as late as
the executor brings them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.engine.dataflow.cut import InstanceCut
from penstock.model.connectors import Sink, Source
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.job_graph import SinkSpec, SourceSpec
from penstock.shedding.kept_log import Stretch
from penstock.state.checkpoints.manifest import InstanceEntry


@dataclass(frozen=True, slots=True)
class BarrierGivenUp:
    """An instance will never pass the barrier of an epoch: one of its channels brought something else in its place."""

    instance: str
    epoch: int


InstanceReport = InstanceCut | BarrierGivenUp
"""What an instance says of a barrier, or at its end, to whoever runs it."""

TakeReport = Callable[[InstanceReport], None]


@dataclass(frozen=True, slots=True)
class CutTaken:
    """An instance was cut at the barrier of ``epoch``, or when it had ``ended`` before.

    The cut stays where the instance runs. ``receipts`` are what its sinks have prepared, by name, ``stretches`` what
    its source has read since the cut before, if it is armed.
    """

    instance: str
    epoch: int
    ended: bool = False
    receipts: Mapping[str, Any] = field(default_factory=dict)
    stretches: tuple[Stretch, ...] = ()


Report = CutTaken | BarrierGivenUp
"""What a session hears of an instance."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The part of a checkpoint that is made of the instances of one place; its files are in the repository.

    ``positions`` are those of sources' partitions, ``counters`` the `RowCounters` of operators, added up; by name.
    ``ended`` has for each operator how many of its instances had ended before the barrier, so that no row follows.
    ``measured_cpu`` is the manifest's, of the place that knows it.
    """

    entries: tuple[InstanceEntry, ...] = ()
    positions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ended: Mapping[str, int] = field(default_factory=dict)
    measured_cpu: Mapping[str, float] = field(default_factory=dict)


class CheckpointPort(Protocol):
    """The requests of a session to whoever runs instances. Names of instances that are not up are passed over."""

    def inject(self, epoch: int, names: Collection[str], *, last: bool) -> None:
        """Let these sources send the barrier of an epoch before they read on; after the ``last`` one none does."""

    def end_sources(self, names: Collection[str]) -> None:
        """Let these sources read nothing more, as if their inputs had ended."""

    def begin_upload(self, epoch: int) -> Callable[[], Sequence[Contribution]]:
        """Return what brings the cuts of an epoch to the repository, dead letters of before it being safe.

        Every instance has been cut at its barrier or has ended before. What is returned is called once, from another
        thread.

        Raises (what is returned):
            PenstockError: a dead letter is not safe, or the storage failed.
        """

    def give_up(self, epoch: int) -> None:
        """Let go of the cuts of this epoch and of earlier ones: they will not be published."""


@dataclass(frozen=True, slots=True)
class Participants:
    """Instances that take part in checkpoints, by name, those that read ``sources`` apart; their connectors by name."""

    instances: frozenset[str]
    readers: frozenset[str]
    sources: Mapping[str, Source] = field(default_factory=dict)
    sinks: Mapping[str, Sink] = field(default_factory=dict)


def participants(graph: ExecutionGraph, tasks: Collection[TaskId] | None = None) -> Participants:
    """Return the instances of some tasks of a plan (None: of all)."""
    chosen = [task for task in graph.tasks if tasks is None or task.id in tasks]
    readers = [task for task in chosen if isinstance(graph.node(task.head).spec, SourceSpec)]
    nodes = [graph.node(operator) for task in chosen for operator in task.operators]
    return Participants(
        frozenset(name for task in chosen for name in graph.instances(task)),
        frozenset(name for task in readers for name in graph.instances(task)),
        {node.name: node.spec.source for node in nodes if isinstance(node.spec, SourceSpec)},
        {node.name: node.spec.sink for node in nodes if isinstance(node.spec, SinkSpec)},
    )
