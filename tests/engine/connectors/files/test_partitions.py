"""Directories of files: every file is read as a partition of its own, whatever the format."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.engine.connectors.files import chunks as file_chunks
from penstock.engine.connectors.parquet.source import ParquetSource
from penstock.engine.connectors.partitions import file_partition, file_partitions
from penstock.engine.connectors.text.csv_files import CsvSource
from penstock.engine.connectors.text.json_lines import JsonLinesSource
from penstock.model.connectors import Source
from penstock.model.errors import BugError, UserError
from tests.engine.connectors.reading import read_all

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us"))])
START = datetime(2025, 3, 1)
FORMATS = ["parquet", "json", "csv"]
READ: dict[str, Callable[..., ps.Stream]] = {"parquet": ps.read_parquet, "json": ps.read_json, "csv": ps.read_csv}
SOURCES: dict[str, Callable[..., Source]] = {"parquet": ParquetSource, "json": JsonLinesSource, "csv": CsvSource}


def write(folder: Path, kind: str, name: str, numbers: list[int]) -> Path:
    """Write rows a second apart."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.{kind}"
    table = pa.table([numbers, [START + timedelta(seconds=number) for number in numbers]], schema=SCHEMA)
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=70)
    elif kind == "csv":
        pa.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
    return path


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_files_that_overlap_in_time_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, parallelism: int
) -> None:
    monkeypatch.setattr(file_chunks, "CHUNK_BYTES", 2000)
    for part in range(2):
        write(tmp_path / "in", kind, f"part {part}", list(range(part, 600, 2)))
    write(tmp_path / "in", kind, "part 1 and none", [])
    stream = READ[kind](tmp_path / "in", schema=SCHEMA, time="at", job=ps.Job())
    result = stream.window(ps.tumbling("10s")).agg(n=ps.count(), total=ps.sum_("n")).collect()
    metrics = stream.job.run("many", directory=tmp_path / "job", batch_rows=50, parallelism=parallelism)
    assert metrics.ledger.late == 0
    assert [row["n"] for row in result.rows()] == [10] * 60
    assert sorted(row["total"] for row in result.rows()) == [100 * window + 45 for window in range(60)]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("parallelism", [1, 3, 5])
@pytest.mark.parametrize("stop_after", [None, 1, 3])
def test_reading_goes_on_from_any_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, parallelism: int, stop_after: int | None
) -> None:
    monkeypatch.setattr(file_chunks, "CHUNK_BYTES", 700)
    for part in range(3):
        write(tmp_path / "in", kind, str(part), list(range(part, 300, 3)))
    got = read_all(SOURCES[kind](tmp_path / "in", SCHEMA), 17, parallelism, stop_after)
    assert sorted(got.column("n")) == list(range(300))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("stop_after", [None, 1])
def test_neighbours_among_many_files_share_a_partition(tmp_path: Path, kind: str, stop_after: int | None) -> None:
    for number in range(300):
        write(tmp_path / "in", kind, f"{number:03}", [2 * number, 2 * number + 1])
    source = SOURCES[kind](tmp_path / "in", SCHEMA)
    assert len(source.partitions(1)) == 256
    assert read_all(source, 1, 2, stop_after).column("n") == list(range(600))


@pytest.mark.parametrize("kind", FORMATS)
def test_more_than_256_files_in_order_lose_nothing(tmp_path: Path, kind: str) -> None:
    for number in range(260):
        write(tmp_path / "in", kind, f"{number:03}", [2 * number, 2 * number + 1])
    stream = READ[kind](tmp_path / "in", schema=SCHEMA, time="at", job=ps.Job())
    result = stream.window(ps.tumbling("10s")).agg(n=ps.count()).collect()
    metrics = stream.job.run("many", directory=tmp_path / "job", batch_rows=50, parallelism=2)
    assert metrics.ledger.late == 0
    assert [row["n"] for row in result.rows()] == [10] * 52


@pytest.mark.parametrize("count", [1, 2, 3, 255, 256, 257, 1000])
@pytest.mark.parametrize("parallelism", [1, 2, 3, 7, 200, 300])
def test_every_piece_of_every_file_is_in_one_partition(count: int, parallelism: int) -> None:
    files = [Path(f"{number:04} 0/1") for number in range(count)]
    names = file_partitions(files, parallelism)
    assert len(set(names)) == len(names) >= min(count, parallelism)
    if parallelism <= 256:
        assert len(names) <= max(256, 2 * parallelism)
    pieces = [
        (path, piece)
        for part in (file_partition(files, name) for name in names)
        for number, path in enumerate(part.files)
        for piece in range(3)
        if part.has(number, piece)
    ]
    assert sorted(pieces) == [(path, piece) for path in files for piece in range(3)]


def test_names_that_mean_no_partition_are_a_bug() -> None:
    for name in ("b", "b 0/2", "a 2/2", ""):
        with pytest.raises(BugError, match="is not"):
            file_partition([Path("a")], name)


def test_a_file_is_opened_by_the_first_read(tmp_path: Path) -> None:
    path = write(tmp_path, "parquet", "a", list(range(100)))
    source = ParquetSource(path)
    name = source.partitions(1)[0]
    position = {**source.open(name, None).position(), "group": 0, "row": 60}
    again, new = source.open(name, position), source.open(name, None)
    assert again.position() == position
    path.unlink()
    for reader in (again, new):
        with pytest.raises(UserError, match="cannot be read as Parquet"):
            reader.read(10)
        reader.close()
    assert again.position() == position
