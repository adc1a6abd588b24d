"""Input that waits: every bucket gets its rows in order, with the watermarks that lie between them."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import Batch, Watermark
from penstock.engine.paging.waiting import WaitingInput, by_bucket, joined

BUCKETS = 3

steps = st.lists(
    st.one_of(
        st.integers(0, 20),
        st.tuples(
            st.integers(0, 1),
            st.lists(st.integers(0, BUCKETS - 1), min_size=1, max_size=6),
            st.sampled_from([1.0, 0.5]),
        ),
    ),
    max_size=14,
)


def played(drawn: list[Any]) -> tuple[WaitingInput, list[list[Any]]]:
    """Let steps wait; return it with what each bucket must see: (port, keep, row) and watermarks, row by row."""
    waiting = WaitingInput(BUCKETS)
    seen: list[list[Any]] = [[] for _ in range(BUCKETS)]
    number = time = 0
    for step in drawn:
        if isinstance(step, int):
            time += step
            waiting.add_watermark(time)
            for of in seen:
                of.append(time)
            continue
        port, buckets, keep = step
        rows = pa.record_batch({"row": list(range(number, number + len(buckets)))})
        waiting.add(port, Batch(rows, keep, ingest_ns=100 - number), np.array(buckets, np.int64))
        for row, bucket in enumerate(buckets, number):
            seen[bucket].append((port, keep, row))
        number += len(buckets)
    return waiting, seen


def flat(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if isinstance(item, Watermark):
            found.append(item.time_us)
        else:
            port, batch = item
            found += [(port, batch.keep, row) for row in batch.rows.column("row").to_pylist()]
    return found


def last_of_each_run(items: list[Any]) -> list[Any]:
    """Return items without watermarks that another follows directly."""
    return [
        item
        for index, item in enumerate(items)
        if not isinstance(item, int) or index + 1 == len(items) or not isinstance(items[index + 1], int)
    ]


@given(steps)
def test_every_bucket_sees_its_rows_in_order_between_the_watermarks(drawn: list[Any]) -> None:
    waiting, seen = played(drawn)
    assert waiting.counts().tolist() == [sum(not isinstance(item, int) for item in of) for of in seen]
    assert bool(waiting) == bool(drawn)
    assert waiting.rows == sum(waiting.counts())
    assert (waiting.bytes > 0) == (waiting.rows > 0)
    for bucket, of in enumerate(seen):
        assert flat(list(waiting.shares(bucket, minds_watermarks=True))) == last_of_each_run(of)
        shares = list(waiting.shares(bucket, minds_watermarks=False))
        times = [item for item in of if isinstance(item, int)]
        assert flat(shares) == [item for item in of if not isinstance(item, int)] + times[-1:]
        runs = [(item[0], item[1].keep) for item in shares if not isinstance(item, Watermark)]
        assert all(one != other for one, other in pairwise(runs)), "rows that could be joined"
    waiting.clear()
    assert not waiting and waiting.bytes == waiting.rows == 0 and waiting.watermark_us is None
    assert not list(waiting.shares(0, minds_watermarks=True))


def test_joined_rows_are_as_old_as_the_oldest() -> None:
    waiting, _ = played([(0, [0, 0], 1.0), (0, [0], 1.0)])
    ages = [item[1].ingest_ns for item in waiting.shares(0, minds_watermarks=True) if not isinstance(item, Watermark)]
    assert ages == [98]


@pytest.mark.parametrize("other", [{"keep": 0.5}, {"branches": b"\x01"}, {"keys": b"\x01"}])
def test_rows_of_other_rates_are_not_joined(other: dict[str, Any]) -> None:
    rows = pa.record_batch({"x": pa.array([1])})
    items = [(0, Batch(rows)), (0, Batch(rows)), (0, Batch(rows, **other))]
    sizes = [item[1].rows.num_rows for item in joined(items, minds_watermarks=True) if not isinstance(item, Watermark)]
    assert sizes == [2, 1]


@given(st.lists(st.integers(0, 4), max_size=50))
def test_rows_are_sorted_by_bucket_and_stay_in_order(buckets: list[int]) -> None:
    order, bounds = by_bucket(np.array(buckets, np.int64), 5)
    assert order.tolist() == sorted(range(len(buckets)), key=lambda row: buckets[row])
    assert np.diff(bounds).tolist() == [buckets.count(bucket) for bucket in range(5)]
