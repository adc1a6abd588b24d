"""What buckets an instance begins with, and how far in time they are."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import Emission, RowCounters
from penstock.engine.core.elements import START_OF_TIME_US, Batch
from penstock.engine.paging.bucket import BucketSource
from penstock.engine.paging.key_ranges import RING, WHOLE, Span
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import PagedOperator
from tests.engine.paging.counting import COUNTING, ROOM, Counting, counts, rows
from tests.engine.paging.driving import Paged, context_of
from tests.engine.paging.kinds import KINDS, batch_of
from tests.engine.paging.shelves import Shelves


def source(span: Span, notes: Any = None, size: int = 10) -> BucketSource:
    return BucketSource(span, size, notes or {}, lambda: None)


def halves(options: PagingOptions, sources: list[BucketSource]) -> list[Span]:
    """Return the buckets of an instance that goes on from sources."""
    operator = PagedOperator(Counting, options, Shelves().open, sources)
    operator.open(context_of(ManualClock(), RowCounters(), COUNTING))
    return [bucket.span for bucket in operator._stores.buckets]


@pytest.mark.parametrize(
    ("sources", "spans"),
    [
        ([], [WHOLE]),
        ([source(Span(0, 5)), source(Span(9, RING))], [WHOLE]),
        ([source(Span(0, 5), {"w": 1}), source(Span(5, RING), {"w": 1, "paging passed_us": 3})], [WHOLE]),
        (
            [source(Span(5, 9), {"w": 1}), source(Span(20, 30), {"w": 2})],
            [(0, 5), (5, 9), (9, 20), (20, 30), (30, RING)],
        ),
        ([source(Span(20, RING), size=1 << 30), source(Span(0, 20))], [(0, 20), (20, RING)]),
    ],
)
def test_begins_with_the_buckets_of_old_instances(sources: list[BucketSource], spans: list[Any]) -> None:
    expected = [span if isinstance(span, Span) else Span(*span) for span in spans]
    assert halves(PagingOptions(None), sources) == expected


@pytest.mark.parametrize(("size", "buckets"), [(0, 1), (1 << 20, 1), (1 << 30, 3)])
def test_instances_that_own_several_ranges_have_a_bucket_for_each_if_it_is_not_little(size: int, buckets: int) -> None:
    owners = np.array([0, 1, 1, 0, 1, 0], np.int32)
    clock, shelves = ManualClock(), Shelves()
    located: Callable[[Any], Any] = context_of(clock, RowCounters(), COUNTING).locate[0]
    whole = batch_of(rows(400))
    mine = np.isin(located(whole).astype(np.uint64) * np.uint64(6) >> np.uint64(32), [0, 3, 5])
    operator = PagedOperator(Counting, PagingOptions(None), shelves.open, [source(WHOLE, size=size)] if size else [])
    operator.open(context_of(clock, RowCounters(), COUNTING, key_groups=owners, parallelism=2))
    assert len(operator._stores.buckets) == buckets
    list(operator.process(0, Batch(whole.filter(pa.array(mine)))))
    assert sum(counts(operator).values()) == mine.sum()


@pytest.mark.parametrize("parallelism", [1, 16])
def test_a_bucket_that_skipped_watermarks_is_told_before_it_sees_rows(parallelism: int, tmp_path: Path) -> None:
    """Also when it is the only one that an instance goes on with."""
    job = Paged(KINDS["first"], ManualClock(), tmp_path)
    job.process(0, batch_of(rows(100, at=1)))
    for time_us in (10, 50):
        job.instances[0].watermark(time_us)
        job.barrier()
        job.upload()
    job.restart(parallelism)
    assert parallelism == 1 or any(len(operator._stores.buckets) == 1 for operator in job.operators)
    job.process(0, batch_of(rows(100, at=30)))
    job.barrier()
    assert job.results.counters.late == 100


def test_watermarks_of_a_bucket_never_go_back_when_instances_were_at_different_times() -> None:
    told: list[int] = []

    class Told(Counting):
        def on_watermark(self, time_us: int) -> Iterable[Emission]:
            told.append(time_us)
            return ()

        def due_us(self) -> int | None:
            return START_OF_TIME_US

    sources = [
        source(Span(0, RING // 2), {"paging swept_us": 10, "w": 1}),
        source(Span(RING // 2, RING), {"paging swept_us": 20}),
    ]
    operator = PagedOperator(Told, ROOM, Shelves().open, sources)
    restored = [{"paging swept_us": swept_us, "paging passed_us": 10} for swept_us in (10, 20)]
    operator.open(context_of(ManualClock(), RowCounters(), COUNTING, restored=restored))
    for time_us in (15, 18, 30):
        list(operator.on_watermark(time_us))
    assert told == [15, 18, 30, 30]
