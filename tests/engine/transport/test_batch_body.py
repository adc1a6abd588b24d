"""Bodies of batches: any rows, any picks, written in any pieces, come out as they were."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.transport.batch_body import BatchCodec
from penstock.engine.transport.picked_rows import Picks
from penstock.engine.transport.ring import ALIGNMENT

VALUES: list[tuple[pa.DataType, st.SearchStrategy[object]]] = [
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (pa.uint16(), st.integers(0, (1 << 16) - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.timestamp("us"), st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2100, 1, 1))),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.decimal128(9, 2), st.decimals(0, 1000, places=2).map(lambda value: decimal.Decimal(value))),
    (pa.list_(pa.string()), st.lists(st.text(max_size=5), max_size=4)),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=4)),
    (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.text()}),
    ),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["red", "green", "blue"])),
    (pa.null(), st.none()),
]


@st.composite
def batches(draw: st.DrawFn, most_rows: int = 40) -> pa.RecordBatch:
    """Draw rows of some of the types above, with nulls or without, cut out of more rows."""
    chosen = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=5))
    total = draw(st.integers(0, most_rows))
    columns = []
    for kind, values in chosen:
        cells = st.none() | values if draw(st.booleans()) else values
        columns.append(pa.array(draw(st.lists(cells, min_size=total, max_size=total)), kind))
    fields = [pa.field(f"c{number}", column.type) for number, column in enumerate(columns)]
    rows = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
    first = draw(st.integers(0, total))
    return rows.slice(first, draw(st.integers(0, total - first)))


@st.composite
def picks_of(draw: st.DrawFn, rows: int) -> Picks | None:
    """Draw the numbers of some of so many rows, ascending; or None."""
    if draw(st.booleans()):
        return None
    return np.array(sorted(draw(st.sets(st.integers(0, rows - 1)))) if rows else [], np.int32)


def picked(rows: pa.RecordBatch, picks: Picks | None) -> pa.RecordBatch:
    return rows if picks is None else rows.take(pa.array(picks))


@given(st.data())
def test_rows_come_out_as_they_were(data: st.DataObject) -> None:
    rows = data.draw(batches())
    picks = data.draw(picks_of(rows.num_rows))
    codec = BatchCodec(rows.schema)
    body = codec.encode(rows, picks)
    memory, at = np.zeros(body.size, np.uint8), 0
    assert body.size % ALIGNMENT == 0
    while body.left:
        most = ALIGNMENT * data.draw(st.integers(1, 10))
        written = body.write(memory[at : at + min(most, body.left)])
        assert 0 < written <= most and written % ALIGNMENT == 0
        at += written
    assert at == body.size
    decoded = codec.decode(body.rows, body.nulls, memory)
    decoded.validate(full=True)
    assert decoded.equals(picked(rows, picks)) and decoded.schema.equals(rows.schema)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.float64(), pa.timestamp("ms")])
def test_columns_of_words_lie_plainly(kind: pa.DataType) -> None:
    codec = BatchCodec(pa.schema([("x", kind), ("y", pa.string())]))
    assert codec.plain == [0]


def test_only_the_picked_rows_are_there() -> None:
    rows = pa.record_batch({"x": np.arange(10_000), "y": np.arange(10_000)})
    assert BatchCodec(rows.schema).encode(rows, np.arange(80, dtype=np.int32)).size == 2 * 80 * 8
