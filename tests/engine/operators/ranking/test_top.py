"""Top-n of append-only rows against sorting everything seen so far."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.ranking.top import Top
from penstock.engine.operators.ranking.top_schema import plan_top
from penstock.model.errors import PlanError
from penstock.model.expressions import Ordering, col
from penstock.model.job_graph import MAIN
from penstock.model.keyed_specs import TopSpec
from penstock.model.schema import WEIGHT, StreamSchema
from tests.engine.operators.ranking.top_support import (
    FIELDS,
    STREAM,
    cuts,
    first_rows,
    kept_rows,
    only_differences,
    orders,
    restarting,
    rows,
    shown,
    to_batch,
    top_spec,
)
from tests.engine.restarts import CUTS, RESTARTS
from tests.engine.support import Collected, ManualClock, open_operator


@settings(max_examples=60, deadline=None)
@given(
    st.lists(rows, max_size=40),
    cuts,
    orders,
    st.sampled_from([1, 2, 3, 5, 5_000]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["k", ""]),
    st.sampled_from([1, 3, 64]),
    st.integers(0, 2**30),
    CUTS,
)
def test_equals_sorting(
    items: Any,
    cuts: Any,
    order: Any,
    count: int,
    rank: bool,
    reverse: bool,
    key: str,
    batch_rows: int,
    seed: int,
    restarts: list[str],
) -> None:
    chance = random.Random(seed)
    spec = top_spec(order, count, "place" if rank else None, reverse, key)
    top = open_operator(restarting(spec, STREAM, restarts), batch_rows=batch_rows)
    out = Collected()
    at = turn = 0
    while at < len(items):
        stop = at + cuts[turn % len(cuts)]
        out.add(top.process(0, Batch(to_batch(items[at:stop]))))
        at, turn = stop, turn + 1
        assert top.context.counters.balanced()
        if chance.random() < 0.5:
            emission = Collected()
            emission.add(top.on_timer(0))
            assert only_differences(emission.batches.get(MAIN, []))
            out.batches.setdefault(MAIN, []).extend(emission.batches.get(MAIN, []))
            assert shown(out.batches[MAIN]) == first_rows(items[:at], spec)
            assert not top.has_pending()
    out.add(top.on_watermark(END_OF_TIME_US))
    out.add(top.on_end())
    batches = out.batches.get(MAIN, [])
    assert shown(batches) == first_rows(items, spec)
    assert all(batch.num_rows <= batch_rows for batch in batches)
    assert all(batch.schema.equals(plan_top(spec, STREAM, "t").output.physical) for batch in batches)
    keys = len({row[0] for row in items}) if key else min(1, len(items))
    assert kept_rows(top) <= count * keys


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.one_of(st.none(), st.integers(0, 2))), max_size=30),
    st.integers(1, 9),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    RESTARTS,
)
def test_equal_rows(items: Any, size: int, count: int, descending: bool, reverse: bool, restarts: list[str]) -> None:
    fields = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    spec = TopSpec((), count, (Ordering(col("v"), descending),), "place", reverse)
    top = open_operator(restarting(spec, StreamSchema(fields), restarts))
    batches: list[pa.RecordBatch] = []
    for start in range(0, len(items), size):
        part = items[start : start + size]
        columns = [pa.array([row[index] for row in part], pa.int64()) for index in range(2)]
        list(top.process(0, Batch(pa.RecordBatch.from_arrays(columns, schema=fields))))
        emitted = [batch.rows for _, batch in top.on_timer(0)]
        assert only_differences(emitted)
        batches += emitted
        sign, tie = (-1 if descending else 1), (-1 if reverse else 1)
        kept = sorted(items[: start + size], key=lambda row: (row[1] is None, sign * (row[1] or 0), tie * row[0]))
        places = {(*row, place) for place, row in enumerate(kept[:count], 1)}
        assert shown(batches) == dict.fromkeys(places, 1)


def test_rows_of_thousands_of_keys_in_large_batches() -> None:
    chance = np.random.default_rng(7)
    count = 60_000
    fields = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
    keys, values = chance.zipf(1.3, count) % 5_000, chance.integers(0, 300, count)
    texts = [f"t{value}" for value in chance.integers(0, 3, count)]
    table = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(values), pa.array(texts)], schema=fields)
    spec = TopSpec((("k", col("k")),), 10, (Ordering(col("v"), True),), "place")
    top = open_operator(restarting(spec, StreamSchema(fields), ["", "two", "one"]))
    out = Collected()
    for start in range(0, count, 20_000):
        out.add(top.process(0, Batch(table.slice(start, 20_000))))
        out.add(top.on_timer(0))
        assert kept_rows(top) <= 10 * 5_000
    found = shown(out.batches[MAIN])
    expected = set()
    for key in np.unique(keys).tolist():
        of_key = sorted((-values[i], texts[i]) for i in np.flatnonzero(keys == key))[:10]
        expected |= {(key, -value, text, place) for place, (value, text) in enumerate(of_key, 1)}
    assert set(found) == expected
    assert set(found.values()) == {1}


def test_emits_once_per_interval_and_when_asked() -> None:
    clock = ManualClock()
    spec = top_spec([("v", True)], 1, None, False)
    top = open_operator(Top(spec, STREAM, "t"), clock=clock)
    batch = Batch(to_batch([("a", 1, None, None, None, None)]), ingest_ns=5)
    assert not list(top.process(0, batch))
    assert top.timer_ns() == 100_000_000
    assert top.has_pending()
    assert top.due_us() == END_OF_TIME_US
    clock.advance_us(100_000)
    better = Batch(to_batch([("a", 2, None, None, None, None)]), ingest_ns=7)
    ((output, emitted),) = list(top.process(0, better))
    assert (output, emitted.ingest_ns) == (MAIN, 5)
    assert emitted.rows.column("v").to_pylist() == [2]
    assert emitted.rows.column(WEIGHT).to_pylist() == [1]
    assert (top.timer_ns(), top.due_us()) == (None, None)
    worse = Batch(to_batch([("a", 0, None, None, None, None)]))
    assert not list(top.process(0, worse))
    assert not top.has_pending()
    assert top.context.counters.folded == 3


def test_rows_whose_order_cannot_be_computed_are_dead_letters() -> None:
    spec = TopSpec((("k", col("k")),), 1, (Ordering(col("v") + 2),))
    top = open_operator(Top(spec, STREAM, "t"))
    batch = to_batch([("a", 2**63 - 1, None, None, None, None), ("a", 1, None, None, None, None)])
    out = Collected()
    out.add(top.process(0, Batch(batch)))
    out.add(top.on_end())
    assert [row["v"] for row in out.rows()] == [1]
    assert (top.context.counters.dead_lettered, top.context.counters.folded) == (1, 1)


def test_schema() -> None:
    output = plan_top(top_spec([("v", True)], 2, "place", False), STREAM, "t").output
    assert output.fields.names == [*FIELDS.names, "place"]
    assert (output.fields.field("place").type, output.fields.field("place").nullable) == (pa.int64(), False)
    assert output.changelog
    assert output.time is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (top_spec([("v", True)], 1, "s", False), "has? one already|have one already"),
        (top_spec([("l", True)], 1, None, False), "no order"),
        (top_spec([("v", True)], 0, None, False), "at least 1"),
        (top_spec([], 1, None, False), "no order"),
        (top_spec([("v", True)], 1, None, False, "l"), "cannot be a key"),
    ],
)
def test_impossible_specs(spec: TopSpec, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Top(spec, STREAM, "t")
