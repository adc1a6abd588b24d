"""Which aggregates have intervals, and the columns in which results say how good they are."""

import pyarrow as pa
import pytest

from penstock.engine.operators.aggregates.aggregate_schema import plan_aggregate
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import col
from penstock.model.job_graph import AggregateSpec
from penstock.model.result_columns import ACCURACY, BIASED, BUCKET, certified_of, high_of, low_of
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Count, Emission, Hopping, Session, Tumbling, Window, Windowing

ROWS = StreamSchema(
    pa.schema({"key": pa.int64(), "paid": pa.decimal128(9, 2), "at": pa.timestamp("us")}), TimeColumn("at")
)
CALLS = (("rows", AggregateCall("count")), ("total", AggregateCall("sum", (col("paid"),))))
FINAL = Emission(mode="final")


def _spec(window: Window, *more: tuple[str, AggregateCall]) -> AggregateSpec:
    return AggregateSpec((("key", col("key")),), (*CALLS, *more), Windowing(window, emission=FINAL), FINAL, True)


def test_columns_of_estimates_stand_behind_the_aggregates() -> None:
    dearest = AggregateCall("max", (col("paid"),))
    spec = _spec(Hopping(4, 2), ("dearest", dearest), ("usual", AggregateCall("mean", (col("paid"),))))
    fields = plan_aggregate(spec, ROWS, "agg").output.fields
    columns = [named(name) for name in ("rows", "total", "usual") for named in (low_of, high_of, certified_of)]
    shown = ["key", "window_start", "window_end", "rows", "total", "dearest", "usual"]
    assert fields.names == [*shown, *columns, ACCURACY, BIASED]
    for name in ("rows", "total", "usual"):
        assert fields.field(low_of(name)).type == fields.field(high_of(name)).type == fields.field(name).type
        assert fields.field(certified_of(name)).type == pa.bool_()
    assert (fields.field(ACCURACY).type, fields.field(BIASED).type) == (pa.float64(), pa.bool_())
    assert not (fields.field(ACCURACY).nullable or fields.field(BIASED).nullable)


@pytest.mark.parametrize("window", [Session(5), Count(3)])
def test_windows_that_a_dropped_row_tears_have_no_intervals(window: Window) -> None:
    output = plan_aggregate(_spec(window), ROWS, "agg").output
    # Sessions of sampled keys are summed up, so they say which keys they are of.
    buckets = [BUCKET] if isinstance(window, Session) else []
    assert output.fields.names[-2 - len(buckets) :] == [ACCURACY, BIASED, *buckets]
    assert not [name for name in output.fields.names if name.startswith(("$low", "$high", "$certified"))]


def test_there_are_none_of_these_columns_without_estimates() -> None:
    spec = AggregateSpec((), CALLS, Windowing(Tumbling(10), emission=FINAL), FINAL)
    assert plan_aggregate(spec, ROWS, "agg").output.fields.names == ["window_start", "window_end", "rows", "total"]
