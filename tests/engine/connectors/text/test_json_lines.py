import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.files import chunks as file_chunks
from penstock.engine.connectors.text.json_decode import JsonDecoder
from penstock.engine.connectors.text.json_lines import JsonLinesSource
from penstock.model.errors import SchemaError, UserError
from tests.engine.connectors.reading import lines, mutated_lines, positions, read_all

BID = pa.schema(
    [
        ("a", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("t", pa.timestamp("us")),
        ("n", pa.struct([("u", pa.list_(pa.int64())), ("q", pa.string())])),
        ("d", pa.decimal128(10, 2)),
    ]
)
GOOD = [
    b'{"a":1,"s":"x","t":"2020-01-01T00:00:00Z","n":{"u":[1,2],"q":"z"}}',
    b'{"f":1.5,"d":"1.25"}',
    b"{}",
    b'{"a":null,"n":null,"zz":[{"k":null}]}',
    b'{"t":1577836800000,"f":-0}',
    b'{"s":"\\u00e9\\ud83d\\ude00 \xc3\xa9"}',
    b'{"n":{"u":null},"d":1.5}',
]
BROKEN = [
    b"{",
    b"}",
    b"[",
    b'"',
    b":",
    b",",
    b"null",
    b"1",
    b"-",
    b"\\",
    b"NaN",
    b"\x00",
    b"\xff",
    b" ",
    b"\t",
    b"{}",
    b"9" * 20,
]


def source(tmp_path: Path, content: bytes, schema: pa.Schema | None = BID) -> JsonLinesSource:
    path = tmp_path / "in.jsonl"
    path.write_bytes(content)
    return JsonLinesSource(path, schema)


def test_objects_become_rows(tmp_path: Path) -> None:
    got = read_all(source(tmp_path, lines(*GOOD)))
    assert got.rejected == []
    assert got.column("a") == [1, None, None, None, None, None, None]
    assert got.column("s") == ["x", None, None, None, None, "é😀 é", None]
    assert got.column("n")[0] == {"u": [1, 2], "q": "z"}
    assert got.column("d")[1] == decimal.Decimal("1.25")
    new_year = datetime.datetime(2020, 1, 1)
    assert got.column("t") == [new_year, None, None, None, new_year, None, None]


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":1',
        b'{"a":1}{"a":2}',
        b'{"a":1} x',
        b'[{"a":1}]',
        b"null",
        b"1",
        b'"text"',
        b'{"a":"1"}',
        b'{"a":1.0}',
        b'{"a":true}',
        b'{"a":9223372036854775808}',
        b'{"a":1180591620717411303424}',
        b'{"a":NaN}',
        b'{"f":NaN}',
        b'{"f":-Infinity}',
        b'{"other":[1, Inf]}',
        b'{"s":5}',
        b'{"s":"\xff"}',
        b'{"s":"\\ud800"}',
        b'{"s":"a\tb"}',
        b'{"f":1e999}',
        b'{"d":1.505}',
        b'{"t":"soon"}',
        b'{"t":1.5}',
        b'{"t":9999999999999999}',
        b'{"n":{"u":[1,"x"]}}',
        b'{"n":[]}',
        b"\x00",
    ],
)
def test_a_bad_line_costs_itself(tmp_path: Path, line: bytes) -> None:
    got = read_all(source(tmp_path, lines('{"a":1}', line, '{"a":2}')))
    assert got.column("a") == [1, 2]
    assert [record.raw for record in got.rejected] == [line]
    assert got.rejected[0].position == f"{tmp_path / 'in.jsonl'}:2"
    assert got.rejected[0].error


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (b'{"a":1,"a":7}', "a", 7),
        (b'{"s":"[NaN, -Infinity]","a":7}', "a", 7),
        (b'{"a":7,"deep":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "a", 7),
        (b'  {"a":7}\t\r', "a", 7),
        (b'{"\\u0061":7}', "a", 7),
        (b'{"s":"' + b"x" * 100_000 + b'"}', "s", "x" * 100_000),
    ],
)
def test_odd_lines_that_are_fine(tmp_path: Path, line: bytes, name: str, value: Any) -> None:
    for others in ([], [b"broken"]):
        got = read_all(source(tmp_path, lines(line, *others)))
        assert got.column(name) == [value]
        assert len(got.rejected) == len(others)


def test_an_object_over_two_lines_is_two_bad_lines(tmp_path: Path) -> None:
    got = read_all(source(tmp_path, lines('{"a":', "1}", '{"a":2}{"a":3}', '{"a":4}')))
    assert got.column("a") == [4]
    assert positions(got.rejected) == [1, 2, 3]


def test_blank_lines_and_a_missing_last_line_end_count_for_nothing(tmp_path: Path) -> None:
    got = read_all(source(tmp_path, b'\xef\xbb\xbf\n{"a":1}\r\n  \n\n{"a":"x"}\n{"a":2}'))
    assert got.column("a") == [1, 2]
    assert positions(got.rejected) == [5]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_line_is_a_row_or_a_raw_record_whatever_stands_around_it(tmp_path: Path, data: st.DataObject) -> None:
    content = data.draw(st.lists(mutated_lines(GOOD, BROKEN), min_size=1, max_size=12))
    many = source(tmp_path, lines(*content))
    got = read_all(many, max_rows=data.draw(st.integers(1, 5)))
    expected_rows, expected_raw = [], []
    for number, line in enumerate(content, 1):
        alone = read_all(source(tmp_path, lines(line)))
        assert len(alone.rows) + len(alone.rejected) == (1 if line.strip(b" \t\r") else 0)
        expected_rows += alone.rows
        expected_raw += [(record.raw, number) for record in alone.rejected]
    assert repr(got.rows) == repr(expected_rows)
    assert list(zip([record.raw for record in got.rejected], positions(got.rejected), strict=True)) == expected_raw


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("stop_after", [None, 1, 3])
def test_reading_goes_on_from_any_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallelism: int, stop_after: int | None
) -> None:
    monkeypatch.setattr(file_chunks, "CHUNK_BYTES", 700)
    folder = tmp_path / "many"
    folder.mkdir()
    bad = 0
    for file in range(3):
        content = []
        for number in range(200):
            broken = (number + file) % 7 == 0 and file != 1
            bad += broken
            content.append(b"oops %d" % number if broken else b'{"a":%d}' % (1000 * file + number))
        (folder / f"{file}.jsonl").write_bytes(b"\n\n".join(content))
    many = JsonLinesSource(folder, BID)
    got = read_all(many, max_rows=13, parallelism=parallelism, stop_after=stop_after)
    assert sorted(got.column("a")) == sorted(set(got.column("a")))
    assert len(got.rows) == 600 - bad
    assert len(got.rejected) == bad == len({(record.position, record.raw) for record in got.rejected})
    for record in got.rejected:
        path, _, line = record.position.rpartition(":")
        assert Path(path).read_bytes().split(b"\n")[int(line) - 1] == record.raw
    if parallelism == 1:
        assert got.column("a") == sorted(got.column("a"))


def test_partitions_advance_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_chunks, "CHUNK_BYTES", 100)
    one = source(tmp_path, lines(*[b'{"a":%d}' % number for number in range(1000)]))
    readers = [one.open(partition, None) for partition in one.partitions(2)]
    for _ in range(20):
        first, second = (reader.read(1000).rows for reader in readers)
        assert first is not None and second is not None
        assert abs(first.column("a")[0].as_py() - second.column("a")[0].as_py()) < 30


def test_a_line_longer_than_a_chunk_is_a_raw_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_chunks, "CHUNK_BYTES", 1 << 17)
    long = b'{"s":"' + b"x" * (1 << 19) + b'"}'
    for parallelism in (1, 2):
        got = read_all(source(tmp_path, lines('{"a":1}', long, '{"a":2}')), parallelism=parallelism)
        assert sorted(got.column("a")) == [1, 2]
        assert [record.raw for record in got.rejected] == [long[:1024]]
        assert positions(got.rejected) == [2]


def test_event_times_that_cannot_be_used_are_bad_records_with_their_line(tmp_path: Path) -> None:
    content = lines('{"a":1,"t":"2020-01-01"}', "{}", '{"a":2,"t":"2020-01-01"}', '{"a":"x"}', '{"t":null}')
    got = read_all(source(tmp_path, content).with_time("t"), max_rows=1)
    assert got.column("a") == [1, 2]
    assert positions(got.rejected) == [2, 4, 5]
    assert got.rejected[0].error == "event time column 't' is null"


def test_only_wanted_columns_are_decoded(tmp_path: Path) -> None:
    wanted = source(tmp_path, lines('{"a":1,"s":5}', '{"a":2}')).restrict(["a"], None)
    got = read_all(wanted)
    assert wanted.schema.names == ["a"]
    assert got.rows == [{"a": 1}, {"a": 2}]


def test_numeric_times_take_the_fast_path_too(tmp_path: Path) -> None:
    decoder = JsonDecoder(pa.schema([("t", pa.timestamp("ms")), ("u", pa.timestamp("ms"))]))
    assert decoder.decode_block(b'{"t":1,"u":"1970-01-01"}\n{"t":2}\n') is not None


def test_fields_are_inferred(tmp_path: Path) -> None:
    content = lines(
        '{"i":1,"f":1,"s":"x","t":"2020-01-01T00:00:00.5Z","d":"2020-01-01","n":{"x":[1]},"z":null}',
        "broken",
        "null",
        '{"f":1.5,"t":"2020-01-01T00:00:00Z","l":[]}',
    )
    inferred = source(tmp_path, content, None)
    assert {field.name: str(field.type) for field in inferred.schema} == {
        "i": "int64",
        "f": "double",
        "s": "string",
        "t": "timestamp[us, tz=UTC]",
        "d": "date32[day]",
        "n": "struct<x: list<item: int64>>",
        "z": "string",
        "l": "list<item: string>",
    }
    got = read_all(inferred)
    assert len(got.rows) == 2
    assert positions(got.rejected) == [2, 3]


def test_what_cannot_be_inferred_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="is empty, so its fields cannot be inferred"):
        source(tmp_path, b"", None)
    with pytest.raises(SchemaError, match=r"cannot be inferred: .*changed from number to string.*; give schema"):
        source(tmp_path, lines('{"a":1}', '{"a":"x"}'), None)
    with pytest.raises(SchemaError, match="map<string, int64> cannot be read from text"):
        source(tmp_path, b"", pa.schema([("m", pa.map_(pa.string(), pa.int64()))]))


def test_an_empty_file_yields_nothing(tmp_path: Path) -> None:
    got = read_all(source(tmp_path, b""), parallelism=2)
    assert got.rows == [] and got.rejected == []


def test_a_position_in_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    position = source(tmp_path, b"{}\n").open(str(tmp_path / "in.jsonl"), None).position()
    position["mark"]["file"] = str(tmp_path / "other.jsonl")
    with pytest.raises(UserError, match="no longer there to go on from"):
        source(tmp_path, b"{}\n").open(str(tmp_path / "in.jsonl"), position)
