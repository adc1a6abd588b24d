"""An operator that counts rows by key, and how it fares over buckets."""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import MAIN, Emission, Operator, OperatorContext, RowCounters
from penstock.engine.core.elements import Batch
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.engine.paging.pages_cut import PagesCut
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import FixedColumn, TableSpec
from tests.engine.paging.driving import context_of
from tests.engine.paging.kinds import Kind, Row, batch_of
from tests.engine.paging.shelves import Shelves

MB = 1 << 20
ROOM = PagingOptions(MB + (1 << 30), 8_000, 4_000, row_bytes=1 << 20)
"""Buckets of a few keys, all of which fit."""

LITTLE = PagingOptions(MB + 20_000, 8_000, 4_000, 1_000)
"""Room for a few buckets."""


def rows(count: int, at: int = 0, x: int = 1) -> list[Row]:
    return [(f"key {number}", at, x, "a") for number in range(count)]


class Counting(Operator):
    """Counts rows by key, tells them at a barrier or the end, and notes everything that happens to it."""

    minds_watermarks = True
    fails = False
    opened: list["weakref.ref[Counting]"] = []  # noqa: RUF012

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._codec = KeyCodec([pa.string()])
        self._table = context.state.table(TableSpec("counts", (pa.string(),), {"n": FixedColumn(np.dtype(np.int64))}))
        self.opened.append(weakref.ref(self))

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        if self.fails:
            raise ValueError("it fails")
        count = batch.rows.num_rows
        self.context.counters.rows_in += count
        self.context.counters.folded += count
        slots = self._table.upsert(self._codec.encode([batch.rows.column("k")], count)).slots
        np.add.at(self._table.array("n"), slots, 1)
        for row in range(count):
            yield MAIN, batch.with_rows(batch.rows.slice(row, 1))

    def due_us(self) -> int | None:
        return None


COUNTING = Kind(Counting)


def paged(
    options: PagingOptions, clock: ManualClock | None = None, make: Callable[[], Counting] = Counting
) -> PagedOperator:
    operator = PagedOperator(make, options, Shelves().open)
    operator.open(context_of(clock or ManualClock(), RowCounters(), COUNTING))
    return operator


def spread(operator: PagedOperator) -> BucketStores:
    """Give it so many keys that it has several buckets, and return these."""
    for _ in range(3):
        list(operator.process(0, Batch(batch_of(rows(400)))))
    assert len(operator._stores.buckets) > 3
    return operator._stores


def on_pages(operator: PagedOperator) -> BucketStores:
    """Give it several buckets and a page store, as if it had paged, and return these."""
    stores = spread(operator)
    assert stores.pages is not None
    return stores


def pages_cut(operator: PagedOperator) -> PagesCut:
    """Cut an operator that has paged."""
    cut = operator.cut().buckets
    assert isinstance(cut, PagesCut)
    return cut


def counts(operator: PagedOperator) -> Counter[Any]:
    """Return what the tables of all buckets hold, wherever they are; nothing waits."""
    found: Counter[Any] = Counter()
    for name, batch in operator._stores.contents():
        assert name == "counts"
        for key, count in zip(batch.column("key_0").to_pylist(), batch.column("n").to_pylist(), strict=True):
            assert key not in found
            found[key] = count
    return found


def everything(count: int) -> Counter[Any]:
    return Counter({f"key {number}": count for number in range(400)})
