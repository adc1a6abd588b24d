"""The stream's own operators inside Spark's Python workers: what they are given when they open.

Called by the operators of a replay that run a user's code, with `mapInArrow`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from penstock.engine.core.contract import Clock, OperatorContext, RawRecord, RowCounters
from penstock.model.errors import BadRecordError, BugError
from penstock.state.stores.memory_store import MemoryStore

BATCH_ROWS = 32_768
"""At most how many rows leave an operator at once."""


def operator_context(name: str, on_error: str, clock: Clock, wake: threading.Event | None = None) -> OperatorContext:
    """Return the context of an operator that runs alone over one of Spark's partitions; ``wake`` is set by `wake()`."""
    task = TaskContext.get()
    return OperatorContext(
        name=name,
        instance=0 if task is None else task.partitionId(),
        parallelism=1,
        clock=clock,
        state=MemoryStore(name),
        counters=RowCounters(),
        dead_letters=LeftOut(on_error),
        key_groups=np.zeros(128, np.int32),
        batch_rows=BATCH_ROWS,
        seed=0,
        wake=(wake or threading.Event()).set,
    )


class LeftOut:
    """Leaves out the rows that an operator could not process, or fails with ``on_error="fail"``."""

    def __init__(self, on_error: str) -> None:
        self._fails = on_error == "fail"

    def reject(self, operator: str, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        """Take rows an operator could not process.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """
        if self._fails and errors:
            raise BadRecordError(f"operator {operator!r} could not process {rows.slice(0, 1).to_pylist()}: {errors[0]}")

    def reject_raw(self, operator: str, records: Sequence[RawRecord]) -> None:
        """Take records a source could not decode; there is no source.

        Raises:
            BugError: always.
        """
        raise BugError(f"operator {operator!r} decodes no records")

    def close(self) -> None:
        """Nothing to finish."""
