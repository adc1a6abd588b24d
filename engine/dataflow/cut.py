"""The contribution of an instance to a checkpoint, taken between two of its steps.

`Instance` takes a cut, `checkpoint.writer` stores it. A cut holds no reference to state that changes: it may be
written by another thread while the instance works on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.engine.core.contract import Notes
from penstock.engine.dataflow.chain import ChainNode
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.operators.sink import SinkOperator
from penstock.engine.paging.images_cut import ImagesCut
from penstock.engine.paging.key_ranges import owned_runs
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.engine.paging.pages_cut import PagesCut
from penstock.shedding.kept_log import Stretch
from penstock.state.tables.image import StoreDump, dump_of


@dataclass(frozen=True, slots=True)
class OperatorCut:
    """One operator instance at the cut.

    ``part`` is what its store holds (None: nothing was opened), ``buckets`` stand for it when it is paged;
    ``positions`` where a source's partitions go on, ``receipt`` what a sink's writer prepared, ``counters`` its
    `RowCounters` by name, ``key_groups`` the ranges it owned. ``stretches`` are what a source has read since the cut
    before, once it is armed.
    """

    operator: str
    instance: int
    notes: Notes
    counters: Mapping[str, int]
    part: StoreDump | None = field(default=None, repr=False)
    buckets: PagesCut | ImagesCut | None = field(default=None, repr=False)
    positions: Mapping[str, Any] | None = None
    receipt: Any = None
    key_groups: tuple[tuple[int, int], ...] = ()
    stretches: tuple[Stretch, ...] = ()


@dataclass(frozen=True, slots=True)
class InstanceCut:
    """All operators of a task instance at the barrier of ``epoch``, or when it had ``ended`` before."""

    instance: str
    epoch: int
    operators: tuple[OperatorCut, ...]
    ended: bool = False

    def release(self) -> None:
        """Let go of what the cut keeps from being changed; after it was written, or when it will not be.

        One that has ended changes nothing any more, and every later checkpoint has the cut written again.
        """
        if self.ended:
            return
        for operator in self.operators:
            if operator.buckets is not None:
                operator.buckets.release()


def cut_operator(node: ChainNode, index: int, epoch: int, head: SourceHead | None) -> OperatorCut:
    """Return what one member of a chain contributes; ``head`` is that of the source it stands for, if it does."""
    operator = node.operator
    receipt = None
    if isinstance(operator, SinkOperator):
        if epoch not in operator.receipts:
            # It has ended: no barrier came.
            operator.prepare(epoch)
        receipt = operator.take_receipt(epoch)
    part, buckets = None, None
    notes = dict(operator.notes())
    if isinstance(operator, PagedOperator):
        cut = operator.cut()
        notes |= cut.notes
        part, buckets = cut.part, cut.buckets
    else:
        part = dump_of(operator.context.state.contents())
    return OperatorCut(
        operator=node.name,
        instance=index,
        notes=notes,
        counters=node.counters.as_dict(),
        part=part,
        buckets=buckets,
        positions=None if head is None else head.positions(),
        stretches=() if head is None else head.take_stretches(),
        receipt=receipt,
        key_groups=tuple(owned_runs(operator.context.key_groups, operator.context.instance)),
    )
