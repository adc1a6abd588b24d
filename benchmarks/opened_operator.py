"""One operator on a store in memory, opened for a seed, for benchmarks of samples."""

import numpy as np

from penstock.benchmarks.estimates import NoLetters
from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Operator, OperatorContext, RowCounters
from penstock.state.stores.memory_store import MemoryStore


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
