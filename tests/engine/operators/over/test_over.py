"""Running and row-window aggregates of append-only streams against frames worked out row by row, and against DuckDB."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.readers import read_memory
from penstock.engine.core.contract import LATE, MAIN
from penstock.engine.operators.over.over import Over
from penstock.model.aggregates import AggregateCall
from penstock.model.errors import NumericOverflowError, PlanError
from penstock.model.expressions import col
from penstock.model.keyed_specs import OverSpec
from penstock.model.schema import StreamSchema, TimeColumn
from tests.engine.operators.over.over_support import (
    AGGREGATES,
    INPUT,
    KEYS,
    batch_of,
    expected,
    found,
    over,
    rows_drawn,
    steps_of,
)
from tests.engine.restarts import CUTS
from tests.engine.support import collect, open_operator
from tests.penstock.front_door import NOON, SCHEMA
from tests.penstock.front_door import rows as front_door_rows

names_drawn = st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, max_size=6, unique=True)
sizes = st.one_of(st.none(), st.integers(1, 6), st.just(1_000))


@settings(max_examples=110, deadline=None, derandomize=True)
@given(
    rows_drawn,
    st.sampled_from(list(KEYS)),
    sizes,
    names_drawn,
    st.sampled_from([1, 4, 1000]),
    st.integers(0, 10**6),
    CUTS,
)
def test_equals_frames_worked_out_row_by_row(
    rows: list[dict[str, Any]],
    keys: tuple[str, ...],
    size: int | None,
    names: list[str],
    batch_rows: int,
    seed: int,
    cuts: list[str],
) -> None:
    operator = over(keys, size, names, cuts=cuts, batch_rows=batch_rows)
    collected = collect(operator, steps_of(rows, random.Random(seed)))
    assert found(collected) == expected(rows, keys, size, names)
    assert not collected.late
    assert all(batch.num_rows <= batch_rows for batch in collected.batches.get(MAIN, []))
    assert operator.context.counters.passed == len(rows)


@pytest.mark.parametrize(("size", "restarts"), [(None, 0), (1, 0), (2, 0), (7, 0), (64, 0), (None, 9), (7, 9)])
def test_every_aggregate_of_longer_runs(size: int | None, restarts: int) -> None:
    cuts = ["two", "", "one", "two", "restart", ""] * restarts
    cut = random.Random(3)
    rows = [
        {
            "at": index // 8 + cut.randint(0, 2),
            "k": cut.choice("aaab"),
            "v": cut.randint(-9, 9),
            "x": cut.random(),
            "s": cut.choice("xyz"),
        }
        for index in range(300)
    ]
    collected = collect(over(("k",), size, AGGREGATES, cuts=cuts), steps_of(rows, cut))
    assert found(collected) == expected(rows, ("k",), size, AGGREGATES)


@pytest.mark.parametrize("size", [None, 10, 300])
def test_equals_duckdb(size: int | None) -> None:
    numbers = np.random.default_rng(5)
    count = 5_000
    table = pa.table(
        {
            "at": pa.array(numbers.integers(0, 900, count)).cast(pa.timestamp("us")),
            "k": pa.array(numbers.integers(0, 9, count).astype(str)),
            "v": pa.array(numbers.integers(-50, 50, count)),
            "x": pa.array(numbers.random(count), mask=numbers.random(count) < 0.1),
            "s": pa.array(numbers.integers(0, 20, count).astype(str)),
        }
    )
    names = ["n", "text", "total", "average", "floats", "least", "most", "spread", "high_total"]
    operator = over(("k",), size, names, batch_rows=512)
    (batch,) = table.combine_chunks().to_batches()
    collected = collect(operator, [batch.slice(0, 2_000), 0, batch.slice(2_000), 300, 301, 650])
    first = "unbounded" if size is None else str(size - 1)
    order = 'order by "at", k, v, x nulls first, s'
    frame = f"over (partition by k {order} rows between {first} preceding and current row)"
    calls = ["count(*)", "max(s)", "sum(v)", "avg(v)", "sum(x)", "min(v)", "max(x)", "var_samp(v)"]
    columns = ", ".join(f"{call} {frame}" for call in calls)
    query = f"select *, {columns}, sum(v) filter (where v > 0) {frame} from input"
    with duckdb.connect() as connection:
        connection.register("input", table)
        truth = connection.execute(query).fetchall()
    mine = [tuple(row.values()) for row in collected.rows()]
    assert len(mine) == count
    for one, other in zip(sorted(mine, key=_order), sorted(truth, key=_order), strict=True):
        assert one[:7] == other[:7]
        assert [value is None for value in one[7:]] == [value is None for value in other[7:]]
        assert [value or 0 for value in one[7:]] == pytest.approx([value or 0 for value in other[7:]], rel=1e-9)


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*row[:3], row[3] is not None, row[3] or 0.0, *row[4:6])


def test_rows_that_the_watermark_has_passed_are_late() -> None:
    operator = over(("k",), 2, ["total"])
    rows = [{"at": at, "k": "a", "v": at, "x": None, "s": None} for at in (4, 5, 6)]
    collected = collect(operator, [5, batch_of(rows)])
    assert [row["v"] for row in collected.rows(LATE)] == [4]
    assert [row["total"] for row in collected.rows()] == [5, 11]
    assert operator.context.counters.late == 1


def test_rows_wait_for_the_watermark_and_leave_in_order() -> None:
    operator = over((), 2, ["total"])
    rows = [{"at": at, "k": "a", "v": at, "x": None, "s": None} for at in (3, 1, 2)]
    assert [row["total"] for row in collect(operator, [batch_of(rows), 3], end=False).rows()] == [1, 3]
    assert operator.context.counters.folded == 1
    assert [row["total"] for row in collect(operator, []).rows()] == [5]


def test_only_the_rows_that_frames_look_back_at_are_kept() -> None:
    operator = over(("k",), 3, ["total"])
    for at in range(50):
        rows = [{"at": at, "k": "ab"[at % 2], "v": 1, "x": None, "s": "long " * 20}] * 100
        collect(operator, [batch_of(rows), at + 1], end=False)
    assert isinstance(operator, Over)
    assert operator._kept is not None
    assert len(operator._kept._log.live()) == 4


@pytest.mark.parametrize("size", [None, 2])
def test_late_rows_stay_late_after_a_restart(size: int | None) -> None:
    rows = [{"at": at, "k": key, "v": at, "x": None, "s": None} for at in (4, 5) for key in "abcdef"]
    operator = over(("k",), size, ["total"], cuts=["", "two", "one", "restart"])
    collected = collect(operator, [batch_of(rows), 5, batch_of(rows), 6])
    assert [row["v"] for row in collected.late] == [4] * 6
    assert sorted(row["total"] for row in collected.rows()) == sorted([4, 9, 14 if size is None else 10] * 6)


@pytest.mark.parametrize("size", [None, 2])
def test_says_which_watermark_lets_a_row_go(size: int | None) -> None:
    operator = over(("k",), size, ["total"])
    assert operator.due_us() is None
    collect(operator, [batch_of([{"at": at, "k": "a", "v": at, "x": None, "s": None} for at in (9, 4)])], end=False)
    assert operator.due_us() == 5
    assert not collect(operator, [4], end=False).rows()
    assert len(collect(operator, [5], end=False).rows()) == 1
    assert (operator.due_us(), operator.notes()) == (10, {"watermark_us": 5})


def test_rows_that_cannot_be_computed_are_dead_letters() -> None:
    spec = OverSpec(KEYS[("k",)], (("total", AggregateCall("sum", (col("v") + 1,))),))
    operator = open_operator(Over(spec, INPUT, "o"))
    rows = [{"at": 1, "k": "a", "v": value, "x": None, "s": None} for value in (1, 2**63 - 1, 2)]
    assert [row["total"] for row in collect(operator, [batch_of(rows)]).rows()] == [2, 5]
    assert operator.context.counters.dead_lettered == 1


@pytest.mark.parametrize("size", [None, 5])
def test_a_sum_that_does_not_fit_is_an_error(size: int | None) -> None:
    rows = [{"at": at, "k": "a", "v": 2**62, "x": None, "s": None} for at in range(2)]
    with pytest.raises(NumericOverflowError, match="total"):
        collect(over(("k",), size, ["total"]), [batch_of(rows)])


@pytest.mark.parametrize(
    ("schema", "name", "text"),
    [
        (StreamSchema(INPUT.fields), "n", "time="),
        (StreamSchema(INPUT.fields, changelog=True), "n", "by="),
        (INPUT, "v", "'v'"),
    ],
)
def test_what_does_not_fit_is_refused(schema: StreamSchema, name: str, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        Over(OverSpec(KEYS[("k",)], ((name, AggregateCall("count")),), 3), schema, "o")


def test_event_time_stays() -> None:
    operator = Over(OverSpec(KEYS[("k",)], (("n", AggregateCall("count")),), 3), INPUT, "o")
    assert operator._plan.output.time == TimeColumn("at")
    assert not operator._plan.output.changelog


@pytest.mark.parametrize("size", [None, 3])
def test_parallelism_does_not_show(size: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    numbers = random.Random(7)
    moments = [NOON + timedelta(seconds=numbers.randint(0, 30)) for _ in range(200)]
    orders = [{"item": numbers.choice("abcdefg"), "price": numbers.randint(0, 9), "at": at} for at in moments]

    def answers(**options: Any) -> list[dict[str, Any]]:
        stream = read_memory(orders, schema=SCHEMA, time="at", watermark="1m", job=Job())
        looked = stream.key_by("item").over(size).agg(spent=ps.sum_("price"), prices=ps.count_distinct("price"))
        return front_door_rows(looked, **options)

    first = answers(batch_rows=1_000)
    assert len(first) == 200
    assert answers(parallelism=2, batch_rows=16) == first
