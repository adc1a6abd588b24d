"""What instances contribute to a checkpoint, taken between two of their steps; made by `Instance`, kept by `snapshots`.

A cut holds no reference to state that changes: it may be written by another thread while the instance works on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.engine.chain import ChainNode
from penstock.engine.operators.contract import Notes
from penstock.engine.operators.sink import SinkOperator
from penstock.engine.source_head import SourceHead
from penstock.state.image import Part
from penstock.state.store import StateStore


@dataclass(frozen=True, slots=True)
class OperatorCut:
    """One operator instance at the cut.

    ``part`` is what its store holds (None: nothing was opened), ``positions`` where a source's partitions go on,
    ``receipt`` what a sink's writer prepared, ``counters`` its `RowCounters` by name.
    """

    operator: str
    instance: int
    notes: Notes
    counters: Mapping[str, int]
    part: Part | None = field(default=None, repr=False)
    positions: Mapping[str, Any] | None = None
    receipt: Any = None


@dataclass(frozen=True, slots=True)
class InstanceCut:
    """All operators of a task instance at the barrier of ``epoch``."""

    instance: str
    epoch: int
    operators: tuple[OperatorCut, ...]


def cut_operator(node: ChainNode, index: int, epoch: int, head: SourceHead | None) -> OperatorCut:
    """Return what one member of a chain contributes; ``head`` is that of the source it stands for, if it does."""
    operator = node.operator
    receipt = None
    if isinstance(operator, SinkOperator):
        if epoch not in operator.receipts:
            # It has ended: no barrier came.
            operator.prepare(epoch)
        receipt = operator.take_receipt(epoch)
    return OperatorCut(
        operator=node.name,
        instance=index,
        notes=dict(operator.notes()),
        counters=node.counters.as_dict(),
        part=part_of(operator.context.state),
        positions=None if head is None else head.positions(),
        receipt=receipt,
    )


def part_of(store: StateStore) -> Part | None:
    """Return what a store holds, None if nothing was ever opened in it."""
    batches: dict[str, list[pa.RecordBatch]] = {}
    for name, rows in store.contents():
        batches.setdefault(name, []).append(rows)
    return Part(batches) if batches else None
