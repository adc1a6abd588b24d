import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from penstock.engine.connectors.files.sinks import CsvSink, FileSink, JsonLinesSink, ParquetSink
from penstock.engine.connectors.local.black_hole import BlackHoleSink
from penstock.engine.connectors.local.print_sink import PrintSink
from penstock.engine.connectors.parquet.source import ParquetSource
from penstock.engine.connectors.text.csv_files import CsvSource
from penstock.engine.connectors.text.json_lines import JsonLinesSource
from penstock.model.connectors import Source
from penstock.model.errors import UserError
from tests.engine.connectors.reading import read_all

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string()), ("f", pa.float64()), ("t", pa.timestamp("us", "UTC"))])
ROWS = pa.RecordBatch.from_pylist(
    [
        {"a": 1, "s": 'x"y', "f": 1.5, "t": 0},
        {"a": None, "s": "", "f": None, "t": None},
        {"a": -5, "s": None, "f": 2.0, "t": 5},
    ],
    schema=SCHEMA,
)
KINDS: list[tuple[type[FileSink], Callable[[Path, pa.Schema], Source]]] = [
    (ParquetSink, ParquetSource),
    (JsonLinesSink, JsonLinesSource),
    (CsvSink, CsvSource),
]


@pytest.mark.parametrize(("sink", "source"), KINDS)
def test_what_was_written_is_read_back(tmp_path: Path, sink: type[FileSink], source: Callable[..., Source]) -> None:
    path = tmp_path / "new" / f"out{sink.suffix}"
    writer = sink(path).open(SCHEMA, 0, 1)
    writer.write(ROWS)
    writer.write(ROWS.slice(1))
    writer.write(ROWS.slice(0, 0))
    writer.flush()
    assert not path.exists()
    writer.close()
    assert [item.name for item in path.parent.iterdir()] == [path.name]
    assert read_all(source(path, SCHEMA)).rows == [*ROWS.to_pylist(), *ROWS.slice(1).to_pylist()]


@pytest.mark.parametrize(("sink", "source"), KINDS)
def test_several_instances_write_parts(tmp_path: Path, sink: type[FileSink], source: Callable[..., Source]) -> None:
    path = tmp_path / "out"
    for parallelism in (3, 2, 1):
        writers = [sink(path).open(SCHEMA, instance, parallelism) for instance in range(parallelism)]
        for writer in reversed(writers):
            writer.write(ROWS)
            writer.close()
        names = sorted(item.name for item in path.iterdir())
        assert names == [f"part-0000{instance}{sink.suffix}" for instance in range(parallelism)]
        assert len(read_all(source(path, SCHEMA)).rows) == 3 * parallelism


@pytest.mark.parametrize("sink", [kind for kind, _ in KINDS])
def test_a_failed_job_leaves_the_old_file(tmp_path: Path, sink: type[FileSink]) -> None:
    path = tmp_path / f"out{sink.suffix}"
    first = sink(path).open(SCHEMA, 0, 1)
    first.write(ROWS)
    first.close()
    before = path.read_bytes()
    second = sink(path).open(SCHEMA, 0, 1)
    second.write(ROWS.slice(1))
    second.abort()
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(("sink", "source"), KINDS)
def test_no_rows_are_a_file_without_rows(tmp_path: Path, sink: type[FileSink], source: Callable[..., Source]) -> None:
    path = tmp_path / f"out{sink.suffix}"
    sink(path).open(SCHEMA, 0, 1).close()
    assert read_all(source(path, SCHEMA)).rows == []


def test_parquet_row_groups_are_gathered(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    writer = ParquetSink(path).open(pa.schema([("a", pa.int64())]), 0, 1)
    for first in range(0, 300_000, 1000):
        writer.write(pa.RecordBatch.from_arrays([pa.array(range(first, first + 1000))], ["a"]))
    writer.close()
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert groups == [132_000, 132_000, 36_000]
    assert pq.read_table(path)["a"].to_pylist() == list(range(300_000))


def test_csv_holds_nested_values_as_json(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.list_(pa.string())), ("b", pa.binary())])
    writer = CsvSink(tmp_path / "out.csv").open(schema, 0, 1)
    writer.write(pa.RecordBatch.from_pylist([{"n": ["a", None], "b": b"\xff"}, {"n": None, "b": None}], schema=schema))
    writer.close()
    assert (tmp_path / "out.csv").read_text() == '"n","b"\n"[""a"",null]","/w=="\n,\n'


def test_json_lines_of_a_changelog(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64()), pa.field("weight", pa.int8(), nullable=False)])
    writer = JsonLinesSink(tmp_path / "out.jsonl").open(schema, 0, 1)
    writer.write(pa.RecordBatch.from_pylist([{"a": 1, "weight": -1}], schema=schema))
    writer.close()
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"a": 1, "weight": -1}


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        JsonLinesSink(tmp_path / "file" / "out.jsonl").open(SCHEMA, 0, 1)
    (tmp_path / "dir" / "part-00000.jsonl").mkdir(parents=True)
    with pytest.raises(UserError, match="a directory has that name"):
        JsonLinesSink(tmp_path / "dir").open(SCHEMA, 0, 1)


def test_print_shows_a_line_per_row() -> None:
    out = io.StringIO()
    writer = PrintSink(out).open(SCHEMA, 0, 1)
    writer.write(ROWS)
    writer.write(ROWS.slice(0, 0))
    writer.close()
    assert out.getvalue().splitlines() == [
        'a=1  s=x"y  f=1.5  t="1970-01-01T00:00:00.000000Z"',
        "a=null  s=  f=null  t=null",
        'a=-5  s=null  f=2  t="1970-01-01T00:00:00.000005Z"',
    ]


def test_print_marks_changes_and_instances(capsys: pytest.CaptureFixture[str]) -> None:
    schema = pa.schema([("a", pa.int64()), pa.field("weight", pa.int8(), nullable=False)])
    writer = PrintSink().open(schema, 1, 2)
    writer.write(pa.RecordBatch.from_pylist([{"a": 1, "weight": 1}, {"a": 1, "weight": -1}], schema=schema))
    deleted = pa.schema([("a", pa.int64()), pa.field("deleted", pa.bool_(), nullable=False)])
    upserts = PrintSink().open(deleted, 0, 1)
    upserts.write(pa.RecordBatch.from_pylist([{"a": 2, "deleted": True}], schema=deleted))
    assert capsys.readouterr().out.splitlines() == ["1> + a=1", "1> - a=1", "- a=2"]


def test_the_black_hole_counts() -> None:
    sink = BlackHoleSink()
    for instance in range(2):
        sink.open(SCHEMA, instance, 2).write(ROWS)
    assert sink.rows == 6
    assert sink.bytes == 2 * ROWS.nbytes
