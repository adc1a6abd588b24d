import datetime
import math

import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.connectors.local.memory import MemorySink, MemorySource
from penstock.engine.connectors.local.memory_sink import consolidate
from penstock.model.connectors import Source
from penstock.model.errors import PlanError, SchemaError
from tests.engine.connectors.reading import read_all

ROWS = [{"a": 1, "s": "x"}, {"a": 2, "s": None}]
SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
WEIGHT = pa.field("weight", pa.int8(), nullable=False)
DELETED = pa.field("deleted", pa.bool_(), nullable=False)


class OnlyArray:
    """The least that the PyCapsule interface asks for."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatch.from_pylist(ROWS).__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        pa.Table.from_pylist(ROWS),
        pa.RecordBatch.from_pylist(ROWS),
        [pa.RecordBatch.from_pylist(ROWS[:1], schema=SCHEMA), pa.RecordBatch.from_pylist(ROWS[1:], schema=SCHEMA)],
        pa.Table.from_pylist(ROWS).to_reader(),
        polars.DataFrame(ROWS),
        OnlyArray(),
        ROWS,
    ],
    ids=["table", "batch", "batches", "stream", "polars", "array", "dicts"],
)
def test_rows_in_memory_are_read(data: object) -> None:
    source = MemorySource(data)
    assert source.schema == SCHEMA
    assert read_all(source).rows == ROWS


def test_dicts_with_a_schema() -> None:
    source = MemorySource([{"a": 1}, {"s": "x", "zz": 1}], SCHEMA)
    assert read_all(source).rows == [{"a": 1, "s": None}, {"a": None, "s": "x"}]
    assert read_all(MemorySource([], SCHEMA)).rows == []


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(SchemaError, match=r"the rows do not fit the schema: 1\.5 is not a whole number"):
        MemorySource([{"a": 1.5}], SCHEMA)
    with pytest.raises(SchemaError, match="'s' is missing"):
        MemorySource(pa.table({"a": [1]}), SCHEMA)
    for data in (5, "text", [], [1, 2]):
        with pytest.raises(SchemaError, match="rows in memory are"):
            MemorySource(data)


@given(
    rows=st.integers(0, 400),
    parallelism=st.integers(1, 4),
    max_rows=st.integers(1, 100),
    stop_after=st.none() | st.integers(1, 3),
)
def test_partitions_share_the_rows_and_go_on_from_any_position(
    rows: int, parallelism: int, max_rows: int, stop_after: int | None
) -> None:
    source: Source = MemorySource(pa.table({"a": list(range(rows)), "b": [0] * rows})).restrict(["a"], None)
    got = read_all(source, max_rows, parallelism, stop_after)
    assert sorted(got.column("a")) == list(range(rows))
    if parallelism == 1:
        assert got.column("a") == list(range(rows))


def test_the_sink_keeps_batches_and_gives_arrow() -> None:
    sink = MemorySink()
    with pytest.raises(PlanError, match="run the job first"):
        sink.table()
    for instance in range(2):
        sink.open(SCHEMA, instance, 2).write(pa.RecordBatch.from_pylist(ROWS[instance : instance + 1], schema=SCHEMA))
    assert sink.rows() == ROWS
    assert polars.DataFrame(sink).to_dicts() == ROWS
    assert len(sink.batches) == 2
    sink.open(SCHEMA, 0, 1)
    assert sink.rows() == []


def test_a_changelog_is_consolidated() -> None:
    schema = pa.schema([("a", pa.int64()), ("l", pa.list_(pa.int64())), WEIGHT])
    changes = [(1, [1], 1), (2, None, 1), (1, [1], -1), (None, [2], 1), (2, None, 1), (3, [], -1), (4, [4], 1)]
    sink = MemorySink()
    writer = sink.open(schema, 0, 1)
    for a, items, weight in changes:
        writer.write(pa.RecordBatch.from_pylist([{"a": a, "l": items, "weight": weight}], schema=schema))
    assert sink.rows() == [{"a": None, "l": [2]}, {"a": 2, "l": None}, {"a": 2, "l": None}, {"a": 4, "l": [4]}]
    assert len(sink.batches) == 7


def test_an_upserting_stream_keeps_the_last_row_of_each_key() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), DELETED])
    sink = MemorySink("k")
    writer = sink.open(schema, 0, 1)
    for turn in range(4):
        keys = [key for key in range(50_000) if key % (turn + 1) == 0]
        columns = [pa.array(keys), pa.array([turn] * len(keys)), pa.array([turn == 2] * len(keys))]
        writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
    kept = [key for key in range(50_000) if key % 4 == 0 or key % 3]
    expected = {key: 3 if key % 4 == 0 else 1 if key % 2 == 0 else 0 for key in kept}
    assert {row["k"]: row["v"] for row in sink.rows()} == expected
    assert sum(batch.num_rows for batch in sink.batches) < 120_000


def test_normal_types_come_out() -> None:
    columns = {"t": [datetime.datetime(2020, 1, 1)], "c": ["a"]}
    frame = polars.DataFrame(columns, schema_overrides={"c": polars.Categorical})
    assert MemorySource(frame).schema == pa.schema([("t", pa.timestamp("us")), ("c", pa.string())])


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_numbers_that_are_equal_cancel_however_they_are_written(kind: pa.DataType) -> None:
    values = pa.array([0.0, -0.0, None, math.nan, -math.nan, 1.5], pa.float64()).cast(kind)
    changes = pa.table({"value": values, "weight": pa.array([1, -1, 1, 1, -1, 1], pa.int8())})
    assert consolidate(changes).to_pylist() == [{"value": None}, {"value": 1.5}]
