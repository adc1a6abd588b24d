"""Rows in any order within the watermark delay give what the same rows give in order (docs/design/fault-tests.md T2).

``PENSTOCK_ORDER_EXAMPLES`` sets the examples for each pipeline; it is 1,250 before a version, 10,000 together.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock import col, count, max_, sum_
from penstock.dsl.job import embed
from penstock.runs.run_options import RunOptions
from tests.random_settings import with_random

EXAMPLES = int(os.environ.get("PENSTOCK_ORDER_EXAMPLES", "40"))
SECOND = 1_000_000
DELAY = 3
SCHEMA = pa.schema({"id": pa.int64(), "key": pa.int64(), "at": pa.timestamp("us")})

Row = tuple[int, int, int]
"""Id, key, time."""

Streams = tuple[ps.Stream, ps.Stream]


def tumbling(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    return left.key_by("key").window(ps.tumbling("5s")).agg(n=count(), ids=sum_("id"))


def hopping(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    return left.key_by("key").window(ps.hopping("5s", "2s")).agg(n=count(), last=max_("id"))


def session(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    return left.key_by("key").window(ps.session("2s")).agg(n=count(), ids=sum_("id"))


def window_join(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    return left.join(right, on="key", window=ps.tumbling("5s")).select("id", "id_right", "window_start")


def interval_join(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    return left.interval_join(right, on="key", between=("-2s", "1s"), how="left").select("id", "id_right")


def asof_join(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    return left.asof_join(right, on="key", tolerance="4s").select("id", "id_right")


def first(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    return left.key_by("key").deduplicate(ttl="5s").select("key", "at")


def sessions_of_windows(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    counts = left.key_by("key").window(ps.tumbling("1s")).agg(n=count())
    return counts.key_by(big=col("n") > 1).window(ps.session("2s")).agg(windows=count(), rows=sum_("n"))


PIPELINES = (tumbling, hopping, session, window_join, interval_join, asof_join, first, sessions_of_windows)

TIMES = st.lists(
    st.tuples(
        st.integers(0, 2),
        # Whole seconds, where windows begin and end, and what lies between.
        st.integers(0, 40).map(lambda half: half * SECOND // 2) | st.integers(0, 20 * SECOND),
        st.integers(0, DELAY * SECOND) | st.just(0) | st.just(DELAY * SECOND),
    ),
    max_size=40,
)
"""Key, time and how late the row arrives; the latter is less than the delay behind the greatest time before it."""


def put_out(
    make: Callable[[ps.Stream, ps.Stream], ps.Stream], left: Sequence[Row], right: Sequence[Row], batch_rows: int
) -> Counter[tuple[Any, ...]]:
    job = ps.Job()

    def read(rows: Sequence[Row]) -> ps.Stream:
        columns = [pa.array([row[index] for row in rows], field.type) for index, field in enumerate(SCHEMA)]
        table = pa.table(columns, schema=SCHEMA)
        return ps.read_memory(table, time="at", watermark=f"{DELAY}s", job=job)

    result = make(read(left), read(right)).collect()
    loop = with_random(batch_rows=batch_rows, linger_ms=0)
    embedded = embed(job, RunOptions("ordered", loop=loop))
    embedded.run()
    assert sum(line.late for line in embedded.metrics().ledger.operators) == 0
    return Counter(tuple(row.values()) for row in result.rows())


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda item: item.__name__)
@settings(max_examples=EXAMPLES)
@given(left=TIMES, right=TIMES, batch_rows=st.sampled_from([1, 2, 5, 1_000]))
def test_rows_in_any_order(pipeline: Any, left: Any, right: Any, batch_rows: int) -> None:
    sides = [[(number, key, time) for number, (key, time, _) in enumerate(side)] for side in (left, right)]
    late = [[side[number][2] for number in range(len(side))] for side in (left, right)]
    arriving = [
        [row for _, row in sorted(zip([row[2] + lag for row, lag in zip(rows, lags, strict=True)], rows, strict=True))]
        for rows, lags in zip(sides, late, strict=True)
    ]
    in_order = [sorted(rows, key=lambda row: (row[2], row[0])) for rows in sides]
    expected = put_out(pipeline, in_order[0], in_order[1], 1_000)
    assert put_out(pipeline, arriving[0], arriving[1], batch_rows) == expected
