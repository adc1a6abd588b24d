"""A window that ends beyond the year 9999: its end is a time in every format, and in Python the last that there is."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import count, tumbling
from penstock.engine.connectors.local.table_rows import table_rows
from penstock.engine.connectors.text.row_text import encode_rows

LAST = datetime(9999, 12, 31, 23, 59, 59)
END_US = 253_402_300_800_000_000


def last_window(kind: pa.DataType | None = None) -> ps.Stream:
    fields = pa.schema({"k": pa.int64(), "at": kind or pa.timestamp("us")})
    rows = ps.read_memory([{"k": 1, "at": LAST}], schema=fields, time="at", job=ps.Job())
    return rows.key_by("k").window(tumbling("10s")).agg(n=count())


def part(folder: Path) -> Path:
    [file] = folder.glob("part-*")
    return file


def test_files_have_the_time(tmp_path: Path) -> None:
    stream = last_window()
    stream.write_parquet(tmp_path / "parquet")
    stream.write_csv(tmp_path / "csv")
    stream.write_json(tmp_path / "json")
    stream.job.run("last", directory=tmp_path / "job")
    assert pq.read_table(part(tmp_path / "parquet")).column("window_end").cast(pa.int64()).to_pylist() == [END_US]
    [row] = csv.DictReader(part(tmp_path / "csv").read_text().splitlines())
    assert row["window_end"] == "10000-01-01 00:00:00.000000"
    assert json.loads(part(tmp_path / "json").read_text())["window_end"] == "10000-01-01T00:00:00.000000"


def test_print_shows_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = last_window(pa.timestamp("ms", "UTC"))
    stream.print()
    stream.job.run("last", directory=tmp_path)
    assert 'window_end="10000-01-01T00:00:00.000Z"' in capsys.readouterr().out


@pytest.mark.parametrize("zone", [None, "UTC", "Pacific/Auckland"])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_python_shows_the_last_time_that_it_knows(tmp_path: Path, unit: str, zone: str | None) -> None:
    stream = last_window(pa.timestamp(unit, zone))
    result = stream.collect()
    stream.job.run("last", directory=tmp_path)
    [row] = result.rows()
    if zone is None:
        assert row["window_end"].replace(microsecond=0) == LAST
    else:
        assert row["window_end"].astimezone(UTC).date().isoformat() == "9999-12-30"
    assert "9999-12-3" in repr(last_window(pa.timestamp(unit, zone)).preview())


def test_times_before_the_first_and_nulls_are_kept() -> None:
    times: list[Any] = [None, -62_135_596_800_000_001, 0, 9 * 10**18]
    rows = pa.table({"t": pa.array(times, pa.timestamp("us"))})
    assert [row["t"] for row in table_rows(rows)] == [None, datetime.min, datetime(1970, 1, 1), datetime.max]
    texts = [json.loads(text)["t"] for text in encode_rows(rows.to_batches()[0])]
    assert texts == [None, -62_135_596_800_000_001, "1970-01-01T00:00:00.000000", 9 * 10**18]
