"""One operator on a store in memory, opened for a seed, for benchmarks of samples."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Operator, OperatorContext, RawRecord, RowCounters
from penstock.model.errors import BugError
from penstock.state.stores.memory_store import MemoryStore


class NoLetters:
    """Takes no record: every row can be processed."""

    def reject(self, operator: str, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        """Raise `BugError`."""
        raise BugError(f"rows were rejected: {errors[0]}")

    def reject_raw(self, operator: str, records: Sequence[RawRecord]) -> None:
        """Raise `BugError`."""
        raise BugError(f"{operator!r} decodes no records")

    def close(self) -> None:
        """Nothing to finish."""


def opened(operator: Operator, seed: int) -> Operator:
    """Return the operator, open as the only instance of its task; ``seed`` is that of samples, too."""
    operator.open(
        OperatorContext(
            name="totals",
            instance=0,
            parallelism=1,
            clock=SystemClock(),
            state=MemoryStore("totals"),
            counters=RowCounters(),
            dead_letters=NoLetters(),
            key_groups=np.zeros(1, np.int32),
            batch_rows=1 << 16,
            seed=seed,
            sampling_seed=seed,
        )
    )
    return operator
