"""Top-n of a changelog against sorting what is left of it, for any order of inserts and retractions."""

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.ranking.top import Top
from penstock.model.job_graph import MAIN
from tests.engine.operators.ranking.top_support import (
    CHANGELOG,
    Row,
    cuts,
    first_rows,
    hashable,
    kept_rows,
    only_differences,
    orders,
    restarting,
    rows,
    shown,
    to_batch,
    top_spec,
)
from tests.engine.restarts import CUTS
from tests.engine.support import Collected, open_operator


def left_of(changes: list[tuple[Row, int]]) -> list[Row]:
    """Return the rows that are there: a retraction that came before its insert is remembered."""
    net: Counter[Row] = Counter()
    row_of: dict[Row, Row] = {}
    for row, weight in changes:
        net[hashable(row)] += weight
        row_of[hashable(row)] = row
    return [row_of[row] for row, count in net.items() for _ in range(count)]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(rows, min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, 1, -1])), max_size=40),
    cuts,
    orders,
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["k", ""]),
    st.sampled_from([1, 2, 64]),
    st.integers(0, 2**30),
    CUTS,
)
def test_equals_sorting_what_is_left(
    pool: Any,
    picks: Any,
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
    changes = [(pool[pick % len(pool)], weight) for pick, weight in picks]
    spec = top_spec(order, count, "place" if rank else None, reverse, key)
    top = open_operator(restarting(spec, CHANGELOG, restarts), batch_rows=batch_rows)
    batches: list[Any] = []
    at = turn = 0
    while at < len(changes):
        stop = at + cuts[turn % len(cuts)]
        part = changes[at:stop]
        batch = Batch(to_batch([row for row, _ in part], [weight for _, weight in part]))
        batches += [emitted.rows for _, emitted in top.process(0, batch)]
        at, turn = stop, turn + 1
        assert top.context.counters.balanced()
        if chance.random() < 0.5:
            emission = Collected()
            emission.add(top.on_timer(0))
            assert only_differences(emission.batches.get(MAIN, []))
            batches += emission.batches.get(MAIN, [])
            assert shown(batches) == first_rows(left_of(changes[:at]), spec)
    out = Collected()
    out.add(top.on_watermark(END_OF_TIME_US))
    out.add(top.on_end())
    batches += out.batches.get(MAIN, [])
    assert shown(batches) == first_rows(left_of(changes), spec)
    assert all(batch.num_rows <= batch_rows for batch in batches)
    net: Counter[Row] = Counter()
    for row, weight in changes:
        net[hashable(row)] += weight
    assert kept_rows(top) == sum(abs(count) for count in net.values())


def test_many_changes_with_restarts() -> None:
    chance = random.Random(3)
    pool = [(chance.choice([None, "a", "b"]), chance.randint(0, 9), None, None, None, None) for _ in range(60)]
    changes = [(chance.choice(pool), chance.choice([1, 1, -1])) for _ in range(300)]
    spec = top_spec([("v", True)], 4, "place", False)
    top = open_operator(restarting(spec, CHANGELOG, ["", "two", "", "one", "restart"] * 12))
    out = Collected()
    for start in range(0, len(changes), 5):
        part = changes[start : start + 5]
        out.add(top.process(0, Batch(to_batch([row for row, _ in part], [weight for _, weight in part]))))
    out.add(top.on_end())
    assert shown(out.batches[MAIN]) == first_rows(left_of(changes), spec)


def test_keys_without_rows_are_forgotten_and_come_again() -> None:
    spec = top_spec([("v", True)], 1, "place", False)
    top = open_operator(Top(spec, CHANGELOG, "t"))
    row = ("a", 1, None, None, None, None)
    out = Collected()
    for weight in (1, -1, 1):
        out.add(top.process(0, Batch(to_batch([row], [weight]))))
        out.add(top.on_timer(0))
    assert [found["$weight"] for found in out.rows()] == [1, -1, 1]
    out.add(top.process(0, Batch(to_batch([row], [-1]))))
    out.add(top.on_end())
    assert shown(out.batches[MAIN]) == Counter()
    assert top.context.state.log("rows", CHANGELOG.physical).live().size == 0
