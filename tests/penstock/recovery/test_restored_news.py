"""A job says what it goes on from: the checkpoint and its age, where each source goes on, how far time has come."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.dsl.handle import Handle
from penstock.dsl.job import Job
from penstock.engine.restore.notices import age_text, time_text, where_text
from penstock.engine.restore.source_positions import PartitionPosition
from tests.penstock.front_door import noon
from tests.penstock.recovery.checkpoint_jobs import LONG_S, running

SECOND_US = 1_000_000


def test_ages_are_told_in_units_of_which_there_are_two() -> None:
    seconds = {0: "0 s", 119: "119 s", 120: "2 min", 7_199: "119 min", 7_200: "2 hours", 172_800: "2 days", -5: "0 s"}
    assert {length: age_text(length * SECOND_US) for length in seconds} == seconds


def test_a_time_beyond_all_dates_is_still_told() -> None:
    assert time_text(1_740_830_400 * SECOND_US) == "2025-03-01 12:00:00 UTC"
    assert time_text(10**18) == f"{10**18} us"


def test_a_first_start_and_one_from_a_checkpoint_say_so_in_one_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path):
        pass
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "BEGUN: 'items' goes on from no checkpoint, so it begins at its beginning"
    with running(tmp_path):
        pass
    (line,) = capsys.readouterr().err.splitlines()
    told = re.fullmatch(
        r"RESTORED: 'items' goes on from checkpoint 1 of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, \d+ \w+ ago; "
        r"orders 6 rows read; watermark 2025-03-01 12:00:24 UTC, [\d,]+ days behind the clock",
        line,
    )
    assert told is not None, line


def test_a_savepoint_is_told_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path) as handle:
        handle.savepoint("friday", LONG_S)
    capsys.readouterr()
    with running(tmp_path, restore="friday"):
        pass
    assert "RESTORED: 'items' goes on from savepoint 'friday' of " in capsys.readouterr().err


def test_files_that_were_read_are_named_and_inputs_at_their_end_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "day.jsonl").write_text('{"item": "pen"}\n{"item": "ink"}\n')

    def forever() -> Iterator[dict[str, object]]:
        yield {"item": "tip", "at": noon(1)}
        threading.Event().wait()

    def start() -> tuple[Handle, threading.Event]:
        job, seen = Job(), threading.Event()
        ended = ps.read_json(str(tmp_path / "day.jsonl"), schema={"item": str}, job=job).name("day")
        ended.write_json(str(tmp_path / "out")).name("out")
        ever = ps.read_iterable(forever, schema={"item": str}, job=job).name("ever")
        ever.for_each_batch(lambda rows: seen.set()).name("seen")
        return job.start("two", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "job"), seen

    handle, seen = start()
    assert seen.wait(LONG_S)
    handle.stop()
    capsys.readouterr()
    handle, _ = start()
    handle.savepoint("again", LONG_S)
    handle.stop()
    told = capsys.readouterr().err
    assert re.search(r"; day at (its end|day\.jsonl), 2 rows read; ever 1 row read", told), told


def test_many_places_are_counted() -> None:
    known = {f"t/{number}": PartitionPosition({"offset": number * 10}, rows=5) for number in range(5)}
    assert where_text(known) == "at t/0@0, t/1@10, t/2@20 and 2 more, 25 rows read"
    ended = {name: PartitionPosition(item.at, rows=5, ended=True) for name, item in known.items()}
    assert where_text(ended) == "at its end, 25 rows read"
    marked = PartitionPosition({"mark": {"file": "/data/day-1.csv", "length": 7}, "records": 3}, rows=3)
    assert where_text({"0": marked}) == "at day-1.csv, 3 rows read"
