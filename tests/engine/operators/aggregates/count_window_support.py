"""What the tests of count windows share: a stream, ways to cut it, and windows cut from sorted rows."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.engine.operators.aggregates.count_window import CountWindowAggregate
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import col
from penstock.model.job_graph import MAIN, AggregateSpec
from penstock.model.schema import WEIGHT, StreamSchema, TimeColumn
from penstock.model.windows import Windowing
from tests.engine.dataflow.dozing import restarting
from tests.engine.restarts import Restarting
from tests.engine.support import Collected, open_operator

INPUT = StreamSchema(
    pa.schema([("at", pa.timestamp("us")), ("k", pa.string()), ("j", pa.int64()), ("v", pa.int64())]),
    TimeColumn("at"),
)
AGGREGATES = (
    ("n", AggregateCall("count")),
    ("total", AggregateCall("sum", (col("v"),))),
    ("begins", AggregateCall("first", (col("v"),))),
    ("ends", AggregateCall("last", (col("v"),))),
)
KEYS = {(): (), ("k",): (("k", col("k")),), ("k", "j"): (("k", col("k")), ("j", col("j")))}

timed_rows = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(0, 12),
            "k": st.one_of(st.none(), st.sampled_from("ab")),
            "j": st.one_of(st.none(), st.integers(0, 1)),
            "v": st.integers(-3, 3),
        }
    ),
    max_size=50,
)


def operator_of(keys: tuple[str, ...], windowing: Windowing, **options: Any) -> CountWindowAggregate:
    """Open count windows of `AGGREGATES` by these columns."""
    spec = AggregateSpec(KEYS[keys], AGGREGATES, windowing)
    return open_operator(CountWindowAggregate(spec, INPUT, "w"), **options)


def restarting_of(keys: tuple[str, ...], windowing: Windowing, cuts: list[str], **options: Any) -> Restarting:
    """Open the same, to stop and go on as ``cuts`` say."""
    spec = AggregateSpec(KEYS[keys], AGGREGATES, windowing)
    return open_operator(restarting(lambda: CountWindowAggregate(spec, INPUT, "w"), cuts, *keys), **options)


def batch_of(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Return rows as a batch of `INPUT`."""
    return pa.RecordBatch.from_pylist(list(rows), schema=INPUT.fields)


def steps_of(rows: list[dict[str, Any]], cut: random.Random) -> list[pa.RecordBatch | int]:
    """Batches of random sizes, with watermarks no later row falls behind."""
    steps: list[pa.RecordBatch | int] = []
    at = 0
    passed = -1
    while at < len(rows):
        size = cut.randint(1, 8)
        steps.append(batch_of(rows[at : at + size]))
        at += size
        watermark = min((row["at"] for row in rows[at:]), default=12) - cut.randint(0, 2)
        if watermark > passed and cut.random() < 0.7:
            steps.append(watermark)
            passed = watermark
    return steps


def total_order(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what rows of one key are sorted by."""
    return (row["at"], row["k"] is not None, row["k"] or "", row["j"] is not None, row["j"] or 0, row["v"])


def expected(rows: list[dict[str, Any]], keys: tuple[str, ...], size: int) -> Counter[tuple[Any, ...]]:
    """Return the windows of these rows: key, bounds, aggregates."""
    windows: Counter[tuple[Any, ...]] = Counter()
    for key in {tuple(row[name] for name in keys) for row in rows}:
        mine = [row for row in rows if tuple(row[name] for name in keys) == key]
        mine.sort(key=total_order)
        for start in range(0, len(mine), size):
            window = mine[start : start + size]
            first_us, last_us = window[0]["at"], window[-1]["at"]
            begins = min(row["v"] for row in window if row["at"] == first_us)
            ends = max(row["v"] for row in window if row["at"] == last_us)
            total = sum(row["v"] for row in window)
            windows[(*key, first_us, last_us, len(window), total, begins, ends)] += 1
    return windows


def found(collected: Collected) -> Counter[tuple[Any, ...]]:
    """Return the results; of a changelog, what is left once all is applied."""
    windows: Counter[tuple[Any, ...]] = Counter()
    for batch in collected.batches.get(MAIN, []):
        for name in ("window_start", "window_end"):
            place = batch.schema.get_field_index(name)
            batch = batch.set_column(place, name, batch.column(name).cast(pa.int64()))
        for row in batch.to_pylist():
            weight = row.pop(WEIGHT, 1)
            windows[tuple(row.values())] += weight
    assert all(count >= 0 for count in windows.values()), windows
    return +windows
