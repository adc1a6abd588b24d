"""Rows from the future: with ``max_ahead`` they are bad records and say nothing of the watermark."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock import count, tumbling
from penstock.model.errors import OptionError
from tests.penstock.front_door import dead_letters

NOW = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
FAR = datetime(9999, 12, 31, 23)
FIELDS = pa.schema({"k": pa.int64(), "at": pa.timestamp("us")})


def rows(*times: datetime | None) -> list[dict[str, Any]]:
    return [{"k": number, "at": time} for number, time in enumerate(times)]


def counted(stream: ps.Stream) -> ps.Stream:
    return stream.key_by("k").window(tumbling("1m")).agg(n=count())


def test_without_it_one_row_makes_all_others_late(tmp_path: Path) -> None:
    stream = ps.read_memory(rows(NOW, FAR, NOW), schema=FIELDS, time="at", job=ps.Job())
    counted(stream).write_black_hole()
    metrics = stream.job.run("late", directory=tmp_path, batch_rows=1)
    assert (metrics.ledger.late, metrics.ledger.dead_lettered) == (1, 0)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_with_it_the_row_is_a_bad_record_and_the_others_count(tmp_path: Path, unit: str) -> None:
    fields = pa.schema({"k": pa.int64(), "at": pa.timestamp(unit)})
    times = (NOW, FAR, None, NOW + timedelta(minutes=30), NOW + timedelta(hours=3), NOW)
    stream = ps.read_memory(rows(*times), schema=fields, time="at", watermark="1h", max_ahead="1h", job=ps.Job())
    stream = stream.name("rows")
    result = counted(stream).collect()
    metrics = stream.job.run("ahead", directory=tmp_path, batch_rows=1)
    assert metrics.ledger.late == 0
    assert sorted(row["k"] for row in result.rows()) == [0, 3, 5]
    letters = {json.loads(letter["text"])["k"]: letter["error"] for letter in dead_letters(tmp_path)}
    ahead = "event time column 'at' is further ahead of the clock than max_ahead allows"
    assert letters == {1: ahead, 2: "event time column 'at' is null", 4: ahead}


def test_files_have_it_too(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"k": 1, "at": time.isoformat()}) + "\n" for time in (NOW, FAR, NOW)))
    stream = ps.read_json(file, schema=FIELDS, time="at", max_ahead="1h", job=ps.Job())
    result = stream.collect()
    metrics = stream.job.run("files", directory=tmp_path / "job")
    assert (len(result.rows()), metrics.ledger.dead_lettered) == (2, 1)


def test_it_needs_an_event_time_and_is_shown() -> None:
    with pytest.raises(OptionError, match=r"max_ahead= of .* is about event times: give time="):
        ps.read_memory(rows(NOW), schema=FIELDS, max_ahead="1h", job=ps.Job())
    stream = ps.read_memory(rows(NOW), schema=FIELDS, time="at", watermark="2s", max_ahead="1h", job=ps.Job())
    stream.write_black_hole()
    assert "watermark 2s behind, at most 1h ahead" in str(ps.explain(stream.job))
