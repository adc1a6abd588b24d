import datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.connectors.normalise import Normaliser, to_schema
from penstock.engine.connectors.time_range import GREATEST_TIME_US, LEAST_TIME_US
from penstock.model.errors import SchemaError
from penstock.model.schema import normal_type


def one(column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column], ["x"])


def converted(column: pa.Array, kind: pa.DataType) -> list[Any]:
    result: list[Any] = to_schema(one(column), pa.schema([("x", kind)])).column(0).to_pylist()
    return result


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "b"], pa.large_string()),
        pa.array(["a", None, "a long text that is not kept inline"], pa.string_view()),
        pa.array(["a", None, "a"]).dictionary_encode(),
        pa.array(["a", None]).cast(pa.dictionary(pa.int8(), pa.large_string())),
        pa.array([b"a", None], pa.large_binary()),
        pa.array([[1], None], pa.large_list(pa.int64())),
        pa.array([["a"], None], pa.list_(pa.large_string())),
        pa.array([{"t": "a"}, None], pa.struct([("t", pa.large_string())])),
    ],
    ids=lambda column: str(column.type),
)
def test_every_layout_becomes_the_plain_one(column: pa.Array) -> None:
    kind = normal_type(column.type)
    assert kind != column.type
    rows = to_schema(one(column), pa.schema([("x", kind)]))
    assert rows.schema.field("x").type == kind
    assert rows.column("x").to_pylist() == column.to_pylist()


def test_nothing_is_copied_when_there_is_nothing_to_do() -> None:
    rows = one(pa.array(["a"]))
    assert to_schema(rows, rows.schema) is rows


def test_columns_are_chosen_and_ordered() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1], "b": [2], "c": [3]})
    fields = pa.schema([("c", pa.int64()), ("a", pa.int64())])
    assert to_schema(rows, fields).to_pylist() == [{"c": 3, "a": 1}]


def test_numbers_widen_and_narrow_if_they_fit() -> None:
    assert converted(pa.array([1, None], pa.int32()), pa.int64()) == [1, None]
    assert converted(pa.array([1.0]), pa.int64()) == [1]
    with pytest.raises(SchemaError, match="'x' of type double does not fit int64"):
        converted(pa.array([1.5]), pa.int64())
    with pytest.raises(SchemaError, match="does not fit int8"):
        converted(pa.array([300]), pa.int8())


def test_other_kinds_of_types_are_refused() -> None:
    with pytest.raises(SchemaError, match="'x' is string, but int64 is declared"):
        converted(pa.array(["5"]), pa.int64())
    with pytest.raises(SchemaError, match="'y' is missing; there are x"):
        to_schema(one(pa.array([1])), pa.schema([("y", pa.int64())]))


def test_times_change_unit_and_zone_and_are_floored() -> None:
    nanoseconds = pa.array([-1, None, 1_999], pa.timestamp("ns"))
    assert converted(nanoseconds, pa.timestamp("us")) == [
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        None,
        datetime.datetime(1970, 1, 1, 0, 0, 0, 1),
    ]
    zoned = converted(pa.array([0], pa.timestamp("s")), pa.timestamp("us", "Europe/Berlin"))
    assert zoned[0].timestamp() == 0


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_rows_without_a_usable_time_are_bad_records(unit: str) -> None:
    schema = pa.schema([("x", pa.int64()), ("t", pa.timestamp(unit))])
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), pa.array([0, None, 5], pa.timestamp(unit))], schema=schema)
    normaliser = Normaliser(schema, "t")
    normaliser.normalise(rows)
    good, bad = normaliser.normalise(rows)
    assert good.column("x").to_pylist() == [1, 3]
    assert [(record.raw, record.position) for record in bad] == [(b'{"x":2,"t":null}', "row 5")]
    assert bad[0].error == "event time column 't' is null"


def test_times_outside_the_years_1_to_9999_are_bad_records() -> None:
    times = [LEAST_TIME_US - 1, LEAST_TIME_US, GREATEST_TIME_US, GREATEST_TIME_US + 1]
    rows = pa.RecordBatch.from_arrays([pa.array(times, pa.timestamp("us"))], ["t"])
    good, bad = Normaliser(rows.schema, "t").normalise(rows)
    assert good.num_rows == 2
    assert [record.raw for record in bad] == [b'{"t":%d}' % times[0], b'{"t":"10000-01-01T00:00:00.000000"}']
    assert "outside the years 1 to 9999" in bad[0].error


def test_without_event_time_nothing_is_checked() -> None:
    rows = pa.RecordBatch.from_arrays([pa.nulls(2, pa.timestamp("us"))], ["t"])
    assert Normaliser(rows.schema, None).normalise(rows) == (rows, [])
