"""Our own page decoder against pyarrow's."""

import datetime
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine.connectors import parquet_chunk
from penstock.engine.connectors.parquet import ParquetSource
from penstock.engine.connectors.parquet_chunk import ColumnChunk, stored_as_is, supported
from penstock.engine.connectors.parquet_pages import DamagedError, Scratch
from penstock.engine.kernels.snappy import SLACK, unpack_snappy
from penstock.model.errors import UserError
from tests.engine.connectors.reading import read_all

EPOCH = datetime.datetime(1970, 1, 1)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "small": (pa.int64(), st.integers(0, 3)),
    "large": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "unsigned": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "date": (pa.date32(), st.dates()),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "float": (pa.float32(), st.floats(allow_nan=False, width=32)),
    "time": (pa.timestamp("us", "UTC"), st.integers(-(2**40), 2**40)),
    "text": (pa.string(), st.text(max_size=80)),
    "same": (pa.string(), st.just("the same text of more than thirty-two bytes")),
    "bytes": (pa.binary(), st.binary(max_size=40)),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])


def tables() -> st.SearchStrategy[pa.Table]:
    """Draw few values and repeat some of them, in runs and at random, as files do."""

    @st.composite
    def build(draw: st.DrawFn) -> pa.Table:
        rows = draw(st.integers(1, 400))
        chance = random.Random(draw(st.integers(0, 2**32)))
        arrays = []
        for kind, values in COLUMNS.values():
            few = draw(st.lists(values, min_size=1, max_size=draw(st.sampled_from([1, 2, 30]))))
            chosen = [chance.choice(few)]
            while len(chosen) < rows:
                chosen += [chance.choice(few)] * chance.choice([1, 1, 3, 20])
            arrays.append(pa.array(chosen[:rows], kind))
        return pa.table(arrays, schema=SCHEMA)

    return build()


OPTIONS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "zstd", "gzip"]),
        "use_dictionary": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "data_page_size": st.sampled_from([50, 1000, 1 << 20]),
        "dictionary_pagesize_limit": st.sampled_from([100, 1 << 20]),
        "row_group_size": st.sampled_from([1, 7, 64, 100_000]),
        "write_batch_size": st.sampled_from([5, 1024]),
    }
)


@settings(max_examples=80, deadline=None)
@given(tables(), OPTIONS, st.integers(1, 90), st.booleans())
def test_values_are_pyarrows(table: pa.Table, options: dict[str, Any], step: int, required: bool) -> None:
    if required:
        table = table.cast(pa.schema([field.with_nullable(False) for field in SCHEMA]))
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    metadata = pq.read_metadata(file)
    scratch = Scratch()
    first = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        for place, field in enumerate(SCHEMA):
            chunk, column = metadata.row_group(group).column(place), metadata.schema.column(place)
            assert stored_as_is(column, field.type, field.type) and supported(chunk, column)
            decoder = ColumnChunk(file, chunk, column, field.type, scratch)
            taken = [decoder.take(min(step, rows - done)) for done in range(0, rows, step)]
            for part in taken:
                part.validate(full=True)
            wanted = table.column(place).slice(first, rows).combine_chunks()
            assert pa.concat_arrays(taken).equals(wanted)
            with pytest.raises(DamagedError, match="too few values"):
                decoder.take(1)
            decoder.close()
        first += rows


def test_what_is_not_supported_is_left_to_pyarrow(tmp_path: Path) -> None:
    columns = {
        "nulls": pa.array([1, None, 3] * 2000),
        "no": pa.array(range(6000)),
        "short": pa.array([1] * 6000, pa.int16()),
        "flag": pa.array([True] * 6000),
        "list": pa.array([[1, 2]] * 6000),
        "struct": pa.array([{"x": 1}] * 6000),
        "seconds": pa.array([5] * 6000, pa.timestamp("s")),
        "delta": pa.array(range(6000)),
        "dictionary": pa.array(["a", "b"] * 3000).dictionary_encode(),
        "large": pa.array(["a", "b"] * 3000, pa.large_string()),
    }
    path = tmp_path / "a.parquet"
    encodings = {"delta": "DELTA_BINARY_PACKED"}
    pq.write_table(pa.table(columns), path, use_dictionary=["no", "dictionary"], column_encoding=encodings)
    metadata = pq.read_metadata(path)
    schema = ParquetSource(path).schema
    present = pq.read_schema(path)
    flat = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    decoded_here = {
        name
        for name in schema.names
        if name in flat
        and stored_as_is(metadata.schema.column(flat[name]), present.field(name).type, schema.field(name).type)
        and supported(metadata.row_group(0).column(flat[name]), metadata.schema.column(flat[name]))
    }
    assert decoded_here == {"no", "dictionary", "large"}
    got = pa.Table.from_batches(read_all(ParquetSource(path), 1000).batches)
    for name, column in columns.items():
        assert got[name].to_pylist() == column.to_pylist()


def test_statistics_that_deny_nulls_are_not_believed_blindly(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, None] * 5000}), path, compression="none", use_dictionary=False)
    metadata = pq.read_metadata(path)
    chunk, column = metadata.row_group(0).column(0), metadata.schema.column(0)
    assert not supported(chunk, column)
    with path.open("rb", buffering=0) as file, pytest.raises(DamagedError, match="disagree about nulls"):
        ColumnChunk(file, chunk, column, pa.int64(), Scratch()).take(1)


def test_more_text_than_a_batch_can_hold_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_chunk, "MOST_TEXT_BYTES", 100_000)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": ["x" * 50] * 5000}), path)
    with pytest.raises(UserError, match="more than 2 GiB of text; lower batch_rows"):
        read_all(ParquetSource(path), 5000)
    assert len(read_all(ParquetSource(path), 1000).rows) == 5000


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_files_give_rows_or_an_error(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.parquet"
    rows = 5000
    table = pa.table(
        {"n": [number % 90 for number in range(rows)], "t": [f"text {number % 300}" for number in range(rows)]}
    )
    file = io.BytesIO()
    options = data.draw(OPTIONS.map(lambda drawn: {**drawn, "row_group_size": rows, "data_page_size": 4000}))
    pq.write_table(table, file, **options)
    content = bytearray(file.getvalue())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, len(content) - footer - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    reader = ParquetSource(path).open("0/1", None)
    try:
        while not reader.read(700).ended:
            pass
    except UserError as error:
        assert "is damaged" in str(error)


@given(st.lists(st.binary(max_size=40) | st.just(b"abcdefgh" * 9), max_size=60).map(b"".join))
def test_snappy_is_unpacked(content: bytes) -> None:
    packed = np.frombuffer(pa.Codec("snappy").compress(content, asbytes=True), np.uint8)
    target = np.empty(len(content) + SLACK, np.uint8)
    assert unpack_snappy(packed, 0, packed.size, target, len(content)) == 0
    assert target[: len(content)].tobytes() == content
    assert unpack_snappy(packed, 0, packed.size, target, len(content) + 1) == -1
    assert unpack_snappy(packed, 0, packed.size, target[:-1], len(content)) == -1
    if packed.size > 1:
        assert unpack_snappy(packed, 0, packed.size - 1, target, len(content)) == -1


@given(st.binary(max_size=60), st.integers(0, 300))
def test_snappy_of_anything_stays_within_its_target(content: bytes, size: int) -> None:
    packed = np.frombuffer(b"%b%b" % (bytes([size & 0x7F | 0x80, size >> 7]), content), np.uint8)
    memory = np.full(size + SLACK + 64, 7, np.uint8)
    assert unpack_snappy(packed, 0, packed.size, memory[: size + SLACK], size) in (0, -1)
    assert (memory[size + SLACK :] == 7).all()
