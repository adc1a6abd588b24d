"""Every aggregate operator over rows that stand for others: values, intervals, accuracy and bias of its results."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.core.contract import Emission
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.aggregate_descriptor import AGGREGATE
from penstock.engine.operators.aggregates.aggregate_schema import plan_aggregate
from penstock.model import windows
from penstock.model.aggregates import AggregateCall
from penstock.model.errors import BugError
from penstock.model.expressions import col
from penstock.model.job_graph import AggregateSpec
from penstock.model.result_columns import ACCURACY, BIASED
from penstock.model.schema import WEIGHT, StreamSchema, TimeColumn
from penstock.model.windows import Count, Global, Hopping, Session, Tumbling, Window, Windowing
from tests.engine.operators.aggregates.aggregate_support import SevenAndTwenty
from tests.engine.support import open_operator

FIELDS = pa.schema({"k": pa.int64(), "v": pa.int64(), "t": pa.timestamp("us")})
ROWS = StreamSchema(FIELDS, TimeColumn("t"))
CALLS = (("n", AggregateCall("count")), ("total", AggregateCall("sum", (col("v"),))))
Row = dict[str, Any]


def spec_of(window: Window | None, mode: str = "final", calls: Any = CALLS) -> AggregateSpec:
    windowing = None if window is None else Windowing(window, emission=windows.Emission(mode, 1))
    return AggregateSpec((("k", col("k")),), calls, windowing, windows.Emission("updates", 1), estimates=True)


def batch(rows: Sequence[tuple[int, int, int]], keep: float) -> Batch:
    k, v, t = zip(*rows, strict=True)
    columns = [pa.array(k), pa.array(v), pa.array(t, pa.timestamp("us"))]
    return Batch(pa.RecordBatch.from_arrays(columns, schema=FIELDS), keep)


def emitted(
    spec: AggregateSpec, batches: Sequence[Batch], schema: StreamSchema = ROWS, barriers: bool = False
) -> Iterator[Emission]:
    """Yield what leaves an operator until its input has ended, with a barrier behind every batch or none."""
    operator = open_operator(AGGREGATE.make(spec, [schema], "agg"))
    for epoch, item in enumerate(batches):
        yield from operator.process(0, item)
        assert operator.context.counters.balanced()
        if barriers:
            yield from operator.on_barrier(epoch)
    yield from operator.on_watermark(END_OF_TIME_US)
    yield from operator.on_end()


def results(spec: AggregateSpec, batches: Sequence[Batch], schema: StreamSchema = ROWS) -> list[Row]:
    """Return what is shown at the end, in order of key and window."""
    emissions = [item for _, item in emitted(spec, batches, schema)]
    shown: dict[str, Row] = {}
    fields = plan_aggregate(spec, schema, "agg").output.fields
    for item in emissions:
        assert item.keep == 1.0
        assert [field for field in item.rows.schema if field.name != WEIGHT] == list(fields)
        for row in item.rows.to_pylist():
            weight = row.pop(WEIGHT, 1)
            assert weight == 1 or shown.pop(repr(row)) == row
            if weight == 1:
                shown[repr(row)] = row
    return sorted(shown.values(), key=lambda row: [str(value) for value in row.values()])


MIXED = [batch([(1, 10, 1), (1, 20, 2), (2, 5, 3)], 1.0), batch([(1, 100, 4), (2, 7, 8)], 0.25)]


@pytest.mark.parametrize(
    ("window", "mode"),
    [
        (Tumbling(100), "final"),
        (Tumbling(100), "updates"),
        (Hopping(200, 200), "final"),
        (Global(), "final"),
        (Global(), "updates"),
        (None, "updates"),
    ],
    ids=str,
)
def test_values_are_for_all_rows(window: Window | None, mode: str) -> None:
    first, second = results(spec_of(window, mode), MIXED)
    assert (first["n"], first["total"]) == (2 + 4, 30 + 400)
    assert (second["n"], second["total"]) == (1 + 4, 5 + 28)
    assert first[ACCURACY] == pytest.approx(3 / 6) and second[ACCURACY] == pytest.approx(2 / 5)
    # One row was kept at 1/4: the exact interval of one kept row, beside two and one that are exact.
    assert (first["$low.n"], second["$low.n"]) == (3, 2)
    assert first["$high.n"] - 2 == second["$high.n"] - 1 > 10
    assert first["$low.total"] is None and first["$certified.total"] is None
    assert (first[BIASED], second[BIASED]) == (False, False)


def test_panes_are_merged_into_the_windows_that_have_them() -> None:
    """Rows at 1, 6 and 12, the second at keep 1/2, in windows of 10 each 5."""
    rows = [batch([(1, 1, 1)], 1.0), batch([(1, 2, 6)], 0.5), batch([(1, 4, 12)], 1.0)]
    shown = results(spec_of(Hopping(10, 5)), rows)
    assert [(row["n"], row["total"], row[ACCURACY]) for row in shown] == [
        (1, 1, 1.0),
        (3, 5, pytest.approx(2 / 3)),
        (3, 8, pytest.approx(2 / 3)),
        (1, 4, 1.0),
    ]
    assert [row["$low.total"] for row in shown] == [1, None, None, 4]


def test_custom_windows_estimate_too() -> None:
    shown = results(spec_of(SevenAndTwenty()), [batch([(1, 3, 1), (1, 4, 2)], 0.5)])
    assert sorted((row["n"], row["total"]) for row in shown) == [(4, 14), (4, 14)]


@pytest.mark.parametrize("mode", ["final", "updates"])
def test_sessions_tell_the_accuracy_and_are_biased(mode: str) -> None:
    rows = [batch([(1, 1, 1), (1, 2, 3)], 0.5), batch([(1, 4, 100)], 1.0)]
    shed, exact = sorted(results(spec_of(Session(10), mode), rows), key=lambda row: str(row["window_start"]))
    assert (shed["n"], shed["total"], shed[ACCURACY], shed[BIASED]) == (2, 3, 0.5, True)
    assert (exact["n"], exact["total"], exact[ACCURACY], exact[BIASED]) == (1, 4, 1.0, False)
    assert "$low.n" not in shed


def test_count_windows_refuse_a_sample_that_no_plan_lets_through() -> None:
    with pytest.raises(BugError, match="count windows were given a sample"):
        results(spec_of(Count(2)), [batch([(1, 1, 1)], 0.5)])


def test_an_extreme_is_that_of_the_kept_rows_and_says_so() -> None:
    calls = (*CALLS, ("top", AggregateCall("max", (col("v"),))))
    rows = [batch([(1, 9, 1)] * 60, 0.5), batch([(2, 3, 1)], 1.0)]
    shed, exact = results(spec_of(Tumbling(100), calls=calls), rows)
    assert (shed["top"], shed[BIASED], exact[BIASED]) == (9, True, False)
    assert shed["$low.total"] < shed["total"] == 120 * 9 < shed["$high.total"]
    assert "$low.top" not in shed


def test_results_over_results_are_biased_where_these_are_not_exact() -> None:
    """As the maximum of counts in Nexmark's q5: accuracy is the mean of those of the rows."""
    inner = plan_aggregate(spec_of(Tumbling(10)), ROWS, "inner").output
    outer = AggregateSpec((), (("top", AggregateCall("max", (col("n"),))),), Windowing(Tumbling(10)), estimates=True)
    counted = results(spec_of(Tumbling(10)), [batch([(1, 1, 1)], 1.0), batch([(2, 1, 1), (3, 1, 15)], 0.5)])
    rows = pa.RecordBatch.from_pylist(counted, schema=inner.fields)
    first, second = results(outer, [Batch(rows)], inner)
    assert (first["top"], first[ACCURACY], first[BIASED]) == (2, 0.75, True)
    assert (second["top"], second[ACCURACY], second[BIASED]) == (2, 0.5, True)
    assert results(outer, [Batch(rows.slice(0, 1))], inner)[0][BIASED] is False


@pytest.mark.parametrize("window", [Tumbling(100), Session(10), Global(), None, Count(2)], ids=str)
def test_nothing_was_shed(window: Window | None) -> None:
    mode = "updates" if window is None else "final"
    (row,) = results(spec_of(window, mode), [batch([(1, 10, 1), (1, 20, 2)], 1.0)])
    assert (row["n"], row["total"], row[ACCURACY], row[BIASED]) == (2, 30, 1.0, False)
    ends = [row[name] for name in row if name.startswith(("$low", "$high"))]
    assert ends in ([2, 2, 30, 30], [])


def test_updates_follow_the_estimate() -> None:
    """What was shown before rows were shed is retracted as it was."""
    changes = [
        (row[WEIGHT], row["n"], row[ACCURACY])
        for _, item in emitted(spec_of(None, "updates"), MIXED, barriers=True)
        for row in item.rows.to_pylist()
        if row["k"] == 1
    ]
    assert changes == [(1, 2, 1.0), (-1, 2, 1.0), (1, 6, 0.5)]


def test_without_estimates_no_column_is_there_and_keep_changes_nothing() -> None:
    spec = AggregateSpec((("k", col("k")),), CALLS, Windowing(Tumbling(100)))
    assert results(spec, MIXED) == results(spec, [Batch(item.rows) for item in MIXED])
    assert np.all([ACCURACY not in row for row in results(spec, MIXED)])
