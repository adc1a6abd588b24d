"""Operators in a test's hands: a clock that only the test moves, real state in memory, and what came out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import (
    LATE,
    MAIN,
    Emission,
    Operator,
    OperatorContext,
    RawRecord,
    RowCounters,
)
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.state.stores.memory_store import MemoryStore

__all__ = ["Collected", "ManualClock", "Rejected", "collect", "open_operator"]

Op = TypeVar("Op", bound=Operator)


class Rejected:
    """Dead letters that a test can look at."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.raw: list[RawRecord] = []

    def reject(self, operator: str, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        self.rows += rows.to_pylist()
        self.errors += errors

    def reject_raw(self, operator: str, records: Sequence[RawRecord]) -> None:
        self.raw += records

    def close(self) -> None:
        """Nothing to give back."""


def open_operator(
    operator: Op,
    *,
    batch_rows: int = 32_768,
    clock: ManualClock | None = None,
    name: str = "op",
    budget_bytes: int | None = None,
    seed: int = 0,
    sampling_seed: int = 0,
) -> Op:
    """Open an operator as the only instance of its task, on a store in memory; its dead letters are `Rejected`."""
    operator.open(
        OperatorContext(
            name=name,
            instance=0,
            parallelism=1,
            clock=clock or ManualClock(),
            state=MemoryStore(name, budget_bytes),
            counters=RowCounters(),
            dead_letters=Rejected(),
            key_groups=np.zeros(128, np.int32),
            batch_rows=batch_rows,
            seed=seed,
            sampling_seed=sampling_seed,
        )
    )
    return operator


@dataclass
class Collected:
    """What came out of an operator, by output, in order."""

    batches: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def add(self, emissions: Iterable[Emission]) -> None:
        """Drain emissions."""
        for output, batch in emissions:
            self.batches.setdefault(output, []).append(batch.rows)

    def rows(self, output: str = MAIN) -> list[dict[str, Any]]:
        """Return the rows of an output as dicts, in order."""
        return [row for batch in self.batches.get(output, []) for row in batch.to_pylist()]

    @property
    def late(self) -> list[dict[str, Any]]:
        """The rows that were late."""
        return self.rows(LATE)


def collect(operator: Operator, steps: Iterable[pa.RecordBatch | int], *, end: bool = True) -> Collected:
    """Run batches (processed on port 0) and watermarks (integers) through an operator; check its ledger after each.

    ``end`` adds the watermark at the end of time and the end of the input.
    """
    collected = Collected()
    for step in steps:
        if isinstance(step, int):
            collected.add(operator.on_watermark(step))
        elif step.num_rows:
            collected.add(operator.process(0, Batch(step)))
        assert operator.context.counters.balanced(), operator.context.counters
    if end:
        collected.add(operator.on_watermark(END_OF_TIME_US))
        collected.add(operator.on_end())
        assert operator.context.counters.balanced(), operator.context.counters
    return collected
