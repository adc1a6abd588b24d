"""Arrow IPC messages: many rows each, other types, damaged ones, and those that would take too much memory."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.encoded import MessageEncoder, MessageLayout
from penstock.engine.connectors.kafka.formats import arrow_ipc
from penstock.engine.connectors.kafka.formats.arrow_ipc import ArrowEncoder, ArrowValues
from penstock.engine.connectors.kafka.formats.encoders import sink_format
from penstock.model.errors import BadRecordError, SchemaError
from tests.engine.connectors.kafka.formats.mutations import mutated

SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC")), ("n", pa.list_(pa.int32()))]
)
ROW = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(0, 9),
        "name": st.none() | st.text(max_size=4),
        "at": st.none(),
        "n": st.lists(st.integers(0, 9)),
    }
)


def stream(*batches: pa.RecordBatch, file: bool = False, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    make = pa.ipc.new_file if file else pa.ipc.new_stream
    with make(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


@settings(max_examples=40)
@given(st.lists(st.lists(ROW, max_size=4), max_size=4), st.booleans(), st.sampled_from([None, "zstd", "lz4"]))
def test_rows_come_back_with_their_message(parts: list[list[Any]], file: bool, compression: str | None) -> None:
    batches = [pa.RecordBatch.from_pylist(part, schema=SCHEMA) for part in parts]
    messages = [stream(batch, batch, file=file, compression=compression) for batch in batches]
    decoded = ArrowValues(SCHEMA).decode(messages)
    assert decoded.rows.to_pylist() == [row for part in parts for row in part + part]
    assert decoded.row_of.tolist() == [index for index, part in enumerate(parts) for _ in part + part]
    pruned = ArrowValues(SCHEMA).restrict([]).decode(messages)
    assert pruned.rows.num_rows == decoded.rows.num_rows


def test_columns_by_name_and_what_can_be_cast() -> None:
    other = pa.record_batch(
        {
            "extra": [1],
            "name": pa.array(["x"]).dictionary_encode(),
            "id": pa.array([5], pa.int16()),
            "at": pa.array([7], pa.timestamp("ms", "UTC")),
        }
    )
    views = pa.record_batch({"name": pa.array(["longer than twelve bytes"], pa.string_view())})
    decoded = ArrowValues(SCHEMA).decode([stream(other), stream(views)])
    assert not decoded.errors
    first, second = decoded.rows.to_pylist()
    assert (first["id"], first["name"], first["at"].microsecond, first["n"]) == (5, "x", 7_000, None)
    assert second["name"] == "longer than twelve bytes"


def test_what_cannot_be_cast_costs_its_message() -> None:
    lossy = pa.record_batch({"id": [1.5, 2.0]})
    good = pa.record_batch({"id": [1.0, 2.0]})
    decoded = ArrowValues(SCHEMA).decode([stream(good), stream(lossy), stream(good)])
    assert decoded.row_of.tolist() == [0, 0, 2, 2]
    assert "column 'id' is double and cannot be read as int64" in decoded.errors[0][1]


def test_a_damaged_message_costs_itself() -> None:
    batch = pa.RecordBatch.from_pylist([{"id": 1, "name": "name", "at": None, "n": [1, 2]}] * 9, schema=SCHEMA)
    plain = [stream(batch), stream(batch, compression="lz4"), stream(batch, file=True)]
    other = pa.record_batch(
        {"name": pa.array(["a", "b", "a"]).dictionary_encode(), "id": pa.array([1, 2, 3], pa.int32())}
    )
    damaged = list(mutated([*plain, stream(other), stream(batch, compression="zstd")], 4_000))
    decoded = ArrowValues(SCHEMA).decode([plain[0], *damaged, plain[0]])
    for column in decoded.rows.columns:
        column.validate(full=True)
    refused = {index for index, _ in decoded.errors}
    assert refused.isdisjoint(decoded.row_of.tolist())
    assert 2_000 < len(refused) < 4_000
    assert {0, 4_001} <= set(decoded.row_of.tolist())


def bombs() -> dict[str, bytes]:
    """Return small messages that would be large."""
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 60_000, pa.int8()), pa.array(["x" * 100_000]))
    view = pa.array(["x" * 100_000], pa.string_view())
    many = pa.array([0] * 60_000, pa.int8())
    return {
        "rows without bytes": stream(pa.record_batch({"id": pa.nulls(1 << 25)})),
        "dictionary": stream(pa.record_batch({"name": repeated})),
        "dictionary of views": stream(pa.record_batch({"name": pa.DictionaryArray.from_arrays(many, view)})),
        "run ends": stream(pa.record_batch({"name": pa.RunEndEncodedArray.from_arrays([60_000], ["x" * 100_000])})),
    }


@pytest.mark.parametrize("name", ["rows without bytes", "dictionary", "dictionary of views", "run ends"])
def test_small_messages_that_would_be_large(name: str) -> None:
    decoded = ArrowValues(SCHEMA).decode([bombs()[name]])
    assert len(decoded.errors) == 1 and decoded.rows.num_rows == 0
    assert "allowed" in decoded.errors[0][1] or "not read" in decoded.errors[0][1]


def test_a_bomb_of_compression_is_seen_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"name": ["x" * (1 << 20)]})
    packed = stream(batch, compression="zstd")
    assert len(packed) < 2_000
    assert ArrowValues(SCHEMA).decode([packed]).rows.num_rows == 1
    monkeypatch.setattr("penstock.engine.connectors.kafka.formats.arrow_limits.MOST_BYTES", 1 << 20)
    assert "bytes unpacked" in ArrowValues(SCHEMA).decode([packed]).errors[0][1]


@pytest.mark.parametrize(
    "value", [b"", b"{}", b"\x00" * 99, b"\xff" * 99, b"ARROW1\x00\x00", b"\xff\xff\xff\xff\xff\xff\xff\x7f"]
)
def test_nasty_messages(value: bytes) -> None:
    good = stream(pa.record_batch({"id": [1]}))
    decoded = ArrowValues(SCHEMA).decode([good, value, good])
    assert decoded.row_of.tolist() == [0, 2]
    assert decoded.errors[0][0] == 1


def test_large_messages_and_two_columns_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    assert "two columns" in ArrowValues(SCHEMA).decode([stream(twice)]).errors[0][1]
    monkeypatch.setattr(arrow_ipc, "MOST_MESSAGE_BYTES", 100)
    assert "100 are allowed" in ArrowValues(SCHEMA).decode([stream(twice)]).errors[0][1]


def test_messages_are_as_large_as_they_may_be() -> None:
    rows = pa.record_batch({"id": list(range(1_000)), "name": ["x" * 50] * 1_000})
    messages = ArrowEncoder().encode_batches(rows, 10_000)
    assert all(len(message) <= 10_000 for _, message in messages) and len(messages) < 20
    assert sum(count for count, _ in messages) == 1_000
    assert ArrowValues(rows.schema).decode([message for _, message in messages]).rows.equals(rows)
    with pytest.raises(BadRecordError, match="one row"):
        ArrowEncoder().encode_batches(rows, 100)
    assert ArrowEncoder().encode_batches(rows.slice(0, 0), 100) == []


def test_a_message_of_many_rows_has_their_latest_time_and_no_key() -> None:
    rows = pa.record_batch({"id": list(range(1_000)), "at": pa.array(range(1_000), pa.timestamp("ms"))})
    make = sink_format("arrow").make
    layout = MessageLayout(timestamp="at")
    encoder = MessageEncoder(rows.schema, layout, make, alone=False, limit_bytes=5_000, where="t")
    messages = encoder.encode(rows)
    assert messages["timestamp_ms"].to_pylist()[-1] == 999
    assert messages["key"].null_count == messages.num_rows > 1
    with pytest.raises(SchemaError, match="many rows each"):
        MessageEncoder(rows.schema, MessageLayout(key=("id",)), make, alone=False, limit_bytes=9, where="t")
