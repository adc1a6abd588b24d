"""Rows of which operators have decided: read from a build, from counters that a checkpoint holds, or added up.

`bad_records` judges them. They are values by operator name, so that they may come from wherever instances run.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.engine.core.contract import RowCounters
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.checkpoint_port import Contribution
from penstock.engine.operators.registry import descriptor_of
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import OperatorId, TaskId


@dataclass(frozen=True, slots=True)
class RowsDecided:
    """Rows of which an operator has decided, those it has ``rejected``, and those it has found ``good``.

    They are those of ``instances`` of it; in ``ended`` of these no row follows in this run.
    """

    rows: int = 0
    rejected: int = 0
    good: int = 0
    instances: int = 0
    ended: int = 0

    @property
    def all_ended(self) -> bool:
        """Whether no row follows in any instance."""
        return self.ended >= self.instances

    def since(self, earlier: "RowsDecided") -> "RowsDecided":
        """Return the rows without those of before; instances stay as they are."""
        return self._plus(earlier, -1)

    def after(self, earlier: "RowsDecided") -> "RowsDecided":
        """Return the rows with those of before; instances stay as they are."""
        return self._plus(earlier, 1)

    def _plus(self, other: "RowsDecided", times: int) -> "RowsDecided":
        return replace(
            self,
            rows=self.rows + times * other.rows,
            rejected=self.rejected + times * other.rejected,
            good=self.good + times * other.good,
        )


def read_decided(
    build: Build, names: Collection[str] | None = None, last_barrier: int | None = None
) -> dict[str, RowsDecided]:
    """Return what operators of these names (None: all) have decided here, in the plan's order.

    Behind ``last_barrier`` no row follows, though inputs stay open for a later run; None: it was not sent.
    """
    decided = {}
    for operator, counters in build.counters.items():
        name = build.graph.node(operator).name
        if names is None or name in names:
            instances = build.tasks[build.graph.task_of(operator).id]
            ended = sum(
                instance.done or (last_barrier is not None and instance.delivered >= last_barrier)
                for instance in instances
            )
            decided[name] = _decided(build.graph, operator, RowCounters.total(counters), len(instances), ended)
    return decided


def decided_by(
    graph: ExecutionGraph,
    counters: Mapping[str, Mapping[str, int]],
    tasks: Collection[TaskId] | None = None,
    *,
    ended: bool = False,
) -> dict[str, RowsDecided]:
    """Return what all instances of some tasks (None: of all) have decided, by the `RowCounters` of their operators.

    With those of a manifest's ledger it is what they begin with that go on from a checkpoint, with none what they begin
    with otherwise. ``ended``: no row follows.
    """
    return {
        graph.node(operator).name: _decided(
            graph,
            operator,
            RowCounters(**counters.get(graph.node(operator).name, {})),
            task.parallelism,
            task.parallelism if ended else 0,
        )
        for task in graph.tasks
        if tasks is None or task.id in tasks
        for operator in task.operators
    }


def decided_at(
    graph: ExecutionGraph, contributions: Iterable[Contribution], *, last: bool = False
) -> dict[str, RowsDecided]:
    """Return what all operators had decided at a checkpoint, of which all places have contributed.

    A verdict on them, before the checkpoint is published, has seen everything that is in it. ``last``: no row follows
    behind it in this run, even if inputs stay open for a later one.
    """
    total: dict[str, RowCounters] = {}
    ended = Counter[str]()
    for contribution in contributions:
        ended.update(contribution.ended)
        for name, counted in contribution.counters.items():
            total.setdefault(name, RowCounters()).add(RowCounters(**counted))
    counters = {name: counted.as_dict() for name, counted in total.items()}
    return {
        name: item if last else replace(item, ended=ended[name])
        for name, item in decided_by(graph, counters, ended=last).items()
    }


def add_decided(graph: ExecutionGraph, parts: Sequence[Mapping[str, RowsDecided]]) -> dict[str, RowsDecided]:
    """Return what the instances of several places have decided, in the plan's order.

    They count for all instances of the plan: in those of which no place has said anything, rows may follow.
    """
    decided = {}
    for task in graph.tasks:
        for operator in task.operators:
            name = graph.node(operator).name
            counts = [part[name] for part in parts if name in part]
            if counts:
                decided[name] = RowsDecided(
                    rows=sum(item.rows for item in counts),
                    rejected=sum(item.rejected for item in counts),
                    good=sum(item.good for item in counts),
                    instances=task.parallelism,
                    ended=sum(item.ended for item in counts),
                )
    return decided


def _decided(
    graph: ExecutionGraph, operator: OperatorId, counters: RowCounters, instances: int, ended: int
) -> RowsDecided:
    waits = descriptor_of(graph.node(operator).spec).folded_may_fail
    return RowsDecided(
        # What is shed was never looked at.
        rows=counters.rows_in - counters.shed - (counters.folded if waits else 0),
        rejected=counters.dead_lettered,
        good=counters.passed + counters.filtered + counters.late + (0 if waits else counters.folded),
        instances=instances,
        ended=ended,
    )
