"""Operators that stop at a checkpoint and go on from it, as often as a test says: alone, or split over two and back.

A result must not show it. Use `Restarting` in place of the operator, opened like it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.engine.core.contract import Emission, Operator, OperatorContext
from penstock.engine.core.elements import START_OF_TIME_US, Batch
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import Locate, Positions, StateStore
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import StoreDump, StoreImage

HALF = 1 << 31

CUTS = st.lists(st.sampled_from(["", "", "restart", "two", "one"]), max_size=30)
"""What is done before each of the operator's steps: nothing, a restart, one as two operators, one as one."""

RESTARTS = st.lists(st.sampled_from(["", "", "restart"]), max_size=30)
"""The same for operators whose input has no key."""


class Restarting(Operator):
    """Runs ``make()``; before each step does what the next of ``cuts`` says, and nothing when there are no more.

    ``locate`` has one function per input when the operator is keyed; it is handed on in the context.
    """

    def __init__(self, make: Callable[[], Operator], cuts: Iterable[str], locate: Sequence[Locate] = ()) -> None:
        self._make = make
        self._cuts: Iterator[str] = iter(cuts)
        self._locate = locate
        self._inner: list[Operator] = []
        self._epoch = 0
        self._watermark_us = START_OF_TIME_US
        self._passed_us = START_OF_TIME_US

    def open(self, context: OperatorContext) -> None:
        super().open(replace(context, locate=self._locate))
        self._inner = [self._make()]
        self._inner[0].open(self.context)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        yield from self._cut()
        if len(self._inner) == 1:
            yield from self._inner[0].process(port, batch)
            return
        low = self._locate[port](batch.rows) < HALF
        for operator, mine in zip(self._inner, (low, ~low), strict=True):
            if mine.any():
                yield from operator.process(port, batch.with_rows(batch.rows.filter(pa.array(mine))))

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        yield from self._cut()
        self._watermark_us = time_us
        for operator in self._inner:
            yield from operator.on_watermark(time_us)

    def output_watermark(self, time_us: int) -> int:
        passed_us = min(operator.output_watermark(time_us) for operator in self._inner)
        assert passed_us >= self._passed_us, "a restart brought the watermark back"
        self._passed_us = passed_us
        return passed_us

    def timer_ns(self) -> int | None:
        return min((due for operator in self._inner if (due := operator.timer_ns()) is not None), default=None)

    def has_pending(self) -> bool:
        return any(operator.has_pending() for operator in self._inner)

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        return chain.from_iterable(operator.on_timer(now_ns) for operator in self._inner)

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        return chain.from_iterable(operator.on_barrier(epoch) for operator in self._inner)

    def on_end(self) -> Iterable[Emission]:
        return chain.from_iterable(operator.on_end() for operator in self._inner)

    def close(self) -> None:
        for operator in self._inner:
            operator.close()

    def _cut(self) -> Iterator[Emission]:
        what = next(self._cuts, "")
        if not what:
            return
        self._epoch += 1
        yield from self.on_barrier(self._epoch)
        parts = [part_of(operator.context.state) for operator in self._inner]
        notes = [operator.notes() for operator in self._inner]
        for operator in self._inner:
            operator.abort()
        halves = what == "two" and bool(self._locate)
        wanted = [_low, _high] if halves else [None]
        self._inner = []
        for chosen in wanted:
            operator = self._make()
            state = MemoryStore(self.context.name, image=StoreImage(parts, chosen))
            operator.open(replace(self.context, state=state, restored=notes))
            assert StoreImage(parts).names() <= set(state.names()), "state was not opened again"
            self._inner.append(operator)


def part_of(store: StateStore) -> StoreDump:
    """Return what a store holds, checked."""
    batches: dict[str, list[pa.RecordBatch]] = {}
    for name, rows in store.contents():
        rows.validate(full=True)
        batches.setdefault(name, []).append(rows)
    return StoreDump(batches)


def locate_by(*columns: str) -> Locate:
    """Return where rows lie whose key is these columns."""

    def locate(rows: pa.RecordBatch) -> Positions:
        arrays = [rows.column(column) for column in columns]
        hashes = KeyCodec([array.type for array in arrays]).hash(arrays, rows.num_rows)
        return (hashes >> np.uint64(32)).astype(np.uint32)

    return locate


def _low(positions: Positions) -> np.ndarray:
    return positions < HALF


def _high(positions: Positions) -> np.ndarray:
    return positions >= HALF
