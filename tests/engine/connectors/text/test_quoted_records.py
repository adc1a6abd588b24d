"""Quoted values with line breaks: read as the csv module reads them, however files are cut and where reading stops.

What no well-formed table has, unclosed marks above all, is held to a plain model of the rule.
"""

import csv
import io
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from penstock.engine.connectors.files import chunks as file_chunks
from penstock.engine.connectors.files.chunks import CHUNK_BYTES
from penstock.engine.connectors.text.csv_files import CsvSource
from penstock.engine.connectors.text.quoted_records import Quoting
from tests.engine.connectors.reading import lines, positions, read_all

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("t", pa.string())])
PIECES = ["\n", "\r\n", '"', '""', ",", "a", "bc", "", "\n\n", "\r", " ", '"\n', '",\n"', "é"]


def written(path: Path, content: bytes, **options: object) -> CsvSource:
    path.write_bytes(content)
    return CsvSource(path, SCHEMA, **options)  # type: ignore[arg-type]


def random_table(draw: random.Random) -> bytes:
    """Rows of text with everything in it, quoted where it must be or everywhere, with either end of lines."""
    quoting, end = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), draw.choice(["\n", "\r\n"])
    rows = [["".join(draw.choices(PIECES, k=draw.randrange(6))) for _ in range(2)] for _ in range(draw.randrange(40))]
    content = "".join(
        quoted_row(row, quoting) + end for row in [SCHEMA.names, *([n, *row] for n, row in enumerate(rows))]
    )
    return (content.removesuffix("\n") if draw.random() < 0.3 else content).encode()


def quoted_row(row: Sequence[object], quoting: Literal[0, 1]) -> str:
    """Return a row without a line break behind it; with another one the module leaves carriage returns unquoted."""
    text = io.StringIO(newline="")
    csv.writer(text, quoting=quoting, lineterminator="\r\n").writerow(row)
    return text.getvalue().removesuffix("\r\n")


def chunked(patch: pytest.MonkeyPatch, size: int, bound: int | None = None) -> None:
    patch.setattr(file_chunks, "CHUNK_BYTES", size)
    if bound is not None:
        for module in ("quoted_records", "chunk_text", "csv_decode"):
            patch.setattr(f"penstock.engine.connectors.text.{module}.record_bytes", lambda: bound)


@pytest.mark.parametrize("seed", range(120))
def test_tables_are_read_as_the_csv_module_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    content = random_table(draw)
    expected = [
        {"n": int(number), "s": s, "t": t}
        for number, s, t in list(csv.reader(io.StringIO(content.decode(), newline="")))[1:]
    ]
    chunked(monkeypatch, draw.choice([30, 100, 333, 5_000]), 1_000)
    source = written(tmp_path / "in.csv", content)
    parallelism = draw.randrange(1, 5)
    got = read_all(source, draw.randrange(1, 9), parallelism, draw.choice([None, 1, 3]))
    assert got.rejected == []
    # Values that are empty and not in quotes are null, which the module does not tell.
    rows = [{name: "" if value is None else value for name, value in row.items()} for row in got.rows]
    assert sorted(rows, key=lambda row: row["n"]) == expected


def model(text: bytes, bound: int) -> Iterator[tuple[int, bytes]]:
    """Yield where each record begins, and its bytes without the line break at its end: the rule, record by record."""
    at = 0
    while at < len(text):
        line = text.find(b"\n", at) + 1 or len(text)
        end = record_end(text, at) or line
        if end > line and end - at > bound:
            end = line
        if text[at:end].strip(b"\r\n"):
            yield at, text[at:end].removesuffix(b"\n").removesuffix(b"\r")
        at = end


def record_end(text: bytes, at: int) -> int | None:
    """Return where a record ends, None if a value of its is not closed as it must be."""
    while True:
        if text[at : at + 1] == b'"':
            closing = re.compile(rb'"(?:[^"]|"")*"(?!")').match(text, at)
            if closing is None:
                return None
            at = closing.end()
            if b"\n" in closing[0] and not re.compile(rb",|\r?(?:\n|\Z)").match(text, at):
                return None
        at = next((i for i in range(at, len(text)) if text[i] in b",\n"), len(text))
        if text[at : at + 1] != b",":
            return min(at + 1, len(text))
        at += 1


@pytest.mark.parametrize("seed", range(300))
def test_any_text_is_cut_by_the_rule_wherever_cutting_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    pieces = [b'"', b'"', b'""', b",", b"\n", b"\n", b"a", b"\r\n", b"1,", b',"', b'",']
    text = b"".join(draw.choices(pieces, k=draw.randrange(1, 60)))
    bound = draw.choice([4, 10, 30, 1_000])
    chunked(monkeypatch, draw.choice([10, 40]), bound)
    expected = list(model(text, bound))
    quoting = Quoting(",")
    whole = quoting.records(text, final=True)
    assert list(zip(whole.starts.tolist(), whole.of(text), strict=True)) == expected
    path = tmp_path / "text"
    path.write_bytes(text)
    for line in [0, *(found.end() for found in re.finditer(b"\n", text))]:
        first = quoting.first_record(path, 0, line)
        assert first >= line
        assert [start for start, _ in expected if line <= start < first] == []
        behind = quoting.records(text[first:], final=True)
        assert (behind.starts + first).tolist() == [start for start, _ in expected if start >= line]
        block, records = quoting.complete(path, 0, text[:line])
        assert records.of(block) == [record for start, record in expected if start < line]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("stop_after", [None, 1])
def test_broken_and_sound_records_are_told_apart_wherever_chunks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallelism: int, stop_after: int | None
) -> None:
    content = []
    for number in range(200):
        kinds = [
            f'{number},"a\r\n\nb""\n,",x',
            f"{number},y,z",
            f'{number},"open,',
            f'{number},"q",""',
            f'{number},"a\nb"',
        ]
        content.append(kinds[number % 5])
    source = written(tmp_path / "in.csv", lines("n,s,t", *content))
    whole = read_all(source)
    assert whole.column("n") == [number for number in range(200) if number % 5 in (0, 1, 3)]
    assert [record.raw.decode() for record in whole.rejected] == [
        content[number] for number in range(200) if number % 5 in (2, 4)
    ]
    chunked(monkeypatch, 150, 60)
    got = read_all(source, 7, parallelism, stop_after)
    assert sorted(got.column("n")) == whole.column("n")
    key = sorted(zip(positions(got.rejected), [record.raw for record in got.rejected], strict=True))
    assert key == list(zip(positions(whole.rejected), [record.raw for record in whole.rejected], strict=True))


def test_an_unclosed_mark_at_the_end_is_one_bad_record(tmp_path: Path) -> None:
    got = read_all(written(tmp_path / "in.csv", lines("n,s,t", '1,"a\nb",', '2,"open,') + b'3,"y'))
    assert got.rows == [{"n": 1, "s": "a\nb", "t": None}]
    assert [record.raw for record in got.rejected] == [b'2,"open,', b'3,"y']
    assert positions(got.rejected) == [4, 5]
    assert "a quoted value does not end on its line" in got.rejected[0].error


def test_a_record_of_several_lines_is_bounded(tmp_path: Path) -> None:
    bound = CHUNK_BYTES // 4
    sound, too_long = ('%d,"' + f"{'a' * 999}\n" * (bound // 1_000 + more) + '",x' for more in (0, 1))
    got = read_all(written(tmp_path / "in.csv", lines("n,s,t", sound % 1, too_long % 2, "3,y,z")))
    assert got.column("n") == [1, 3]
    assert got.rejected[0].raw == b'2,"' + b"a" * 999
    assert len(got.rejected) == 2 + too_long.count("\n") - 1


def test_a_header_may_hold_line_breaks(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b'\xef\xbb\xbf"n","two\r\nlines"\r\n1,"a\r\nb"\r\n2,c\r\n')
    source = CsvSource(tmp_path / "in.csv")
    assert source.schema == pa.schema([("n", pa.int64()), ("two\r\nlines", pa.string())])
    assert [tuple(row.values()) for row in read_all(source).rows] == [(1, "a\r\nb"), (2, "c")]


def test_a_bad_record_of_several_lines_is_one_with_all_its_bytes(tmp_path: Path) -> None:
    got = read_all(written(tmp_path / "in.csv", lines("n,s,t", "1,a,b", 'x,"a\n\nb",c', "2,a,b")))
    assert got.column("n") == [1, 2]
    assert [record.raw for record in got.rejected] == [b'x,"a\n\nb",c']
    assert positions(got.rejected) == [3]


def test_a_position_of_an_earlier_version_goes_on_behind_its_lines(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", lines("n,s,t", '1,"a\nb",', "2,x,", "", '3,"c\nd",', "4,y,"))
    partition = source.partitions(1)[0]
    position = source.open(partition, None).position()
    assert "first" not in position
    # It took the first record for two bad lines.
    reader = source.open(partition, {**position, "records": 3})
    rows = reader.read(10).rows
    assert rows is not None and rows.column("n").to_pylist() == [3, 4]
    reader.close()


def test_lines_behind_a_mark_that_is_not_closed_are_not_read_once_for_each_line_before_them() -> None:
    """Each goes on to the next, so that it took minutes."""
    text = b'b","c\n' * 150_000
    found = Quoting(",").records(text, final=True)
    assert len(found.starts) == 150_000 and bool(found.unclosed.all())
