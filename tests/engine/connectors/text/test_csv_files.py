import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.files import chunks as file_chunks
from penstock.engine.connectors.text.csv_files import CsvSource
from penstock.model.errors import OptionError, SchemaError
from tests.engine.connectors.reading import lines, mutated_lines, positions, read_all

BID = pa.schema([("a", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us"))])
HEADER = b"a,s,t"
GOOD = [
    b"1,x,2020-01-01T00:00:00Z",
    b"2,,",
    b'3,"",1577836800000',
    b'4,"say ""hi"", then",',
    b",y,2020-01-01",
    b'5,in"side,',
]
BROKEN = [b",", b'"', b"\r", b"x", b"\xff", b" ", b'""', b"9" * 20, b"\x00", b"\t", b".5"]


def source(tmp_path: Path, content: bytes, schema: pa.Schema | None = BID) -> CsvSource:
    path = tmp_path / "in.csv"
    path.write_bytes(content)
    return CsvSource(path, schema)


def test_records_become_rows(tmp_path: Path) -> None:
    got = read_all(source(tmp_path, lines(HEADER, *GOOD)))
    assert got.rejected == []
    assert got.column("a") == [1, 2, 3, 4, None, 5]
    assert got.column("s") == ["x", None, "", 'say "hi", then', "y", 'in"side']
    new_year = datetime.datetime(2020, 1, 1)
    assert got.column("t") == [new_year, None, new_year, None, new_year, None]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"x,y,", "column 'a': CSV conversion error to int64: invalid value 'x'"),
        (b"1.5,y,", "column 'a'"),
        (b"9223372036854775808,y,", "column 'a'"),
        (b"1,y", "expected 3 values, got 2"),
        (b"1,y,,", "expected 3 values, got 4"),
        (b'1,"y,', "a quoted value does not end on its line"),
        (b'1,y,"2020', "a quoted value does not end on its line"),
        (b"1,a\rb,", "a carriage return stands inside the line"),
        (b"1,\xff,", "column 's': CSV conversion error to string: invalid UTF8 data"),
        (b"1,y,soon", "Failed to parse string: 'soon'"),
        (b" ", "expected 3 values, got 1"),
    ],
)
def test_a_bad_line_costs_itself(tmp_path: Path, line: bytes, error: str) -> None:
    for after in ([b"2,y,"], []):
        got = read_all(source(tmp_path, lines(HEADER, "1,x,", line, *after)))
        assert got.column("a") == [1, 2][: 1 + len(after)]
        assert [record.raw for record in got.rejected] == [line]
        assert got.rejected[0].position == f"{tmp_path / 'in.csv'}:3"
        assert error in got.rejected[0].error


def test_a_stray_quotation_mark_does_not_swallow_its_neighbours(tmp_path: Path) -> None:
    got = read_all(source(tmp_path, lines(HEADER, '1,"open,', "2,x,", '3,"open,', "4,x,")))
    assert got.column("a") == [2, 4]
    assert positions(got.rejected) == [2, 4]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_line_is_a_row_or_a_raw_record_whatever_stands_around_it(tmp_path: Path, data: st.DataObject) -> None:
    content = data.draw(st.lists(mutated_lines(GOOD, BROKEN), min_size=1, max_size=12))
    got = read_all(source(tmp_path, lines(HEADER, *content)), max_rows=data.draw(st.integers(1, 5)))
    expected_rows, expected_raw = [], []
    for number, line in enumerate(content, 2):
        alone = read_all(source(tmp_path, lines(HEADER, line)))
        assert len(alone.rows) + len(alone.rejected) == (1 if line.strip(b"\r") else 0)
        expected_rows += alone.rows
        expected_raw += [(record.raw, number) for record in alone.rejected]
    assert got.rows == expected_rows
    assert list(zip([record.raw for record in got.rejected], positions(got.rejected), strict=True)) == expected_raw


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("stop_after", [None, 1])
def test_reading_goes_on_from_any_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallelism: int, stop_after: int | None
) -> None:
    monkeypatch.setattr(file_chunks, "CHUNK_BYTES", 500)
    content = [b"oops" if number % 11 == 5 else b'%d,"v",2020-01-01' % number for number in range(300)]
    one = source(tmp_path, lines(HEADER, *content))
    got = read_all(one, max_rows=9, parallelism=parallelism, stop_after=stop_after)
    assert sorted(got.column("a")) == [number for number in range(300) if number % 11 != 5]
    assert sorted(positions(got.rejected)) == [number + 2 for number in range(300) if number % 11 == 5]


def test_columns_come_by_name_in_each_file(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(lines("t,extra,a,s", ",q,1,x"))
    (tmp_path / "2.csv").write_bytes(lines("s,a,t", "y,2,"))
    assert read_all(CsvSource(tmp_path, BID)).rows == [
        {"a": 1, "s": "x", "t": None},
        {"a": 2, "s": "y", "t": None},
    ]


def test_a_missing_column_names_close_matches(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"in\.csv' has no column 'price'; did you mean 'prices'"):
        source(tmp_path, lines("prices,s", "1,x"), pa.schema([("price", pa.int64())]))


def test_without_a_header_the_schema_gives_the_order(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"\xef\xbb\xbf" + lines("1;x", "2;y"))
    schema = pa.schema([("a", pa.int64()), ("s", pa.string())])
    one = CsvSource(path, schema, delimiter=";", header=False)
    assert read_all(one).rows == [{"a": 1, "s": "x"}, {"a": 2, "s": "y"}]
    assert read_all(one.restrict(["s"], None)).rows == [{"s": "x"}, {"s": "y"}]
    with pytest.raises(OptionError, match="needs schema"):
        CsvSource(path, header=False)
    with pytest.raises(OptionError, match="one character"):
        CsvSource(path, delimiter=",,")


def test_columns_are_inferred(tmp_path: Path) -> None:
    first = "1,1.5,x,2020-01-01 00:00:00,2020-01-01T00:00:00Z,2020-01-01,"
    content = lines("i,f,s,t,u,d,z", first, "oops", "2,2,y,,,,")
    inferred = source(tmp_path, content, None)
    assert [str(field.type) for field in inferred.schema] == [
        "int64",
        "double",
        "string",
        "timestamp[us]",
        "timestamp[us, tz=UTC]",
        "date32[day]",
        "string",
    ]
    got = read_all(inferred)
    assert len(got.rows) == 2
    assert positions(got.rejected) == [3]


def test_what_cannot_be_inferred_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="is empty"):
        source(tmp_path, b"", None)
    with pytest.raises(SchemaError, match="two columns 'a'"):
        source(tmp_path, lines("a,a", "1,2"), None)
    with pytest.raises(SchemaError, match="cannot be read from CSV"):
        source(tmp_path, lines("l", "1"), pa.schema([("l", pa.list_(pa.int64()))]))


def test_empty_files_yield_nothing(tmp_path: Path) -> None:
    assert read_all(source(tmp_path, b"")).rows == []
    assert read_all(source(tmp_path, lines(HEADER))).rows == []


def test_event_times_that_cannot_be_used_are_bad_records_with_their_line(tmp_path: Path) -> None:
    got = read_all(source(tmp_path, lines(HEADER, "1,x,2020-01-01", "2,x,", "3,x,2020-01-01")).with_time("t"))
    assert got.column("a") == [1, 3]
    assert positions(got.rejected) == [3]
