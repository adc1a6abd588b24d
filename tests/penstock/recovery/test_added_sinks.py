"""A sink that is added to a job with checkpoints begins behind the last one; one that is taken out is told of."""

import threading
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.stream import Stream
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.model.connectors import Reader
from penstock.model.errors import FatalError
from tests.penstock.front_door import ORDERS, SCHEMA, Script, ScriptReader, Step, batch

LONG_S = 30.0
"""Longer than anything here takes."""


class Daily(Script):
    """Has the next order each time it is opened, and then nothing for ever."""

    def __init__(self) -> None:
        super().__init__(SCHEMA, (), bounded=False)

    def open(self, partition: str, position: Any | None) -> Reader:
        reader = ScriptReader(self, self._script(position or 0))
        # The order of the day is one step; the waiting behind it is none.
        reader.position = lambda: (position or 0) + 1  # type: ignore[method-assign]
        return reader

    def _script(self, day: int) -> Iterator[Step]:
        return chain([batch(ORDERS[day])], repeat(ps.NOTHING))


Write = Callable[[Stream], None]


def day(folder: Path, *writes: Write) -> None:
    """Run until one more order is in every sink, and stop at a checkpoint."""
    orders = ps.read(Daily(), job=Job()).name("orders")
    for write in writes:
        write(orders)
    seen = threading.Event()
    orders.for_each_batch(lambda rows: seen.set()).name("seen")
    handle = orders.job.start("job", checkpoint_dir=folder / "checkpoints", checkpoint_interval="1h")
    while handle.running and not seen.wait(LONG_S / 100):
        continue
    handle.stop()


def to_files(form: str, path: Path, name: str) -> Write:
    def write(orders: Stream) -> None:
        getattr(orders, f"write_{form}")(str(path)).name(name)

    return write


def prices(form: str, path: Path) -> list[int | None]:
    """Return what is committed."""
    collected = getattr(ps, f"read_{form}")(str(path / "part-*"), job=(job := Job())).select("price").collect()
    job.run("look")
    return [row["price"] for row in collected.rows()]


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_a_file_sink_added_to_a_job_begins_behind_its_last_checkpoint(tmp_path: Path, form: str) -> None:
    first = to_files("json", tmp_path / "first", "first")
    day(tmp_path, first)
    added = to_files(form, tmp_path / "added", "added")
    day(tmp_path, first, added)
    day(tmp_path, first, added)
    assert prices("json", tmp_path / "first") == [3, 8, 5]
    assert prices(form, tmp_path / "added") == [8, 5]


def test_a_memory_sink_and_one_of_the_users_can_be_added(tmp_path: Path) -> None:
    first = to_files("json", tmp_path / "first", "first")
    day(tmp_path, first)
    kept: list[Any] = []
    written: list[int] = []

    def collect(orders: Stream) -> None:
        kept.append(MemorySink())
        orders.write(kept[-1]).name("kept")
        orders.for_each_batch(lambda rows: written.extend(rows["price"].to_pylist())).name("mine")

    day(tmp_path, first, collect)
    assert kept[0].table()["price"].to_pylist() == [8]
    assert written == [8]


def test_what_an_added_sink_wrote_after_the_checkpoint_that_is_restored_is_taken_back(tmp_path: Path) -> None:
    first, added = (to_files("json", tmp_path / name, name) for name in ("first", "added"))
    day(tmp_path, first)
    before = sorted((tmp_path / "checkpoints/job/checkpoints").iterdir())
    day(tmp_path, first, added)
    for manifest in (tmp_path / "checkpoints/job/checkpoints").iterdir():
        if manifest not in before:
            manifest.write_bytes(b"damaged")
    day(tmp_path, first, added)
    assert prices("json", tmp_path / "first") == [3, 8]
    assert prices("json", tmp_path / "added") == [8]


def test_an_added_sink_does_not_take_over_output_that_was_committed(tmp_path: Path) -> None:
    day(tmp_path, to_files("json", tmp_path / "out", "out"))
    with pytest.raises(FatalError, match="give it its old name back if it was renamed, or an empty directory"):
        day(tmp_path, to_files("json", tmp_path / "out", "renamed"))
    assert prices("json", tmp_path / "out") == [3]


def test_a_sink_that_is_gone_is_told_of_and_what_it_wrote_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, gone = (to_files("json", tmp_path / name, name) for name in ("first", "gone"))
    day(tmp_path, first, gone)
    assert "SINK GONE" not in capsys.readouterr().err
    day(tmp_path, first)
    said = capsys.readouterr().err
    assert said.count("SINK GONE") == 1 and "no longer has 'gone'" in said
    assert prices("json", tmp_path / "gone") == [3]
    with pytest.raises(FatalError, match="not in that checkpoint"):
        day(tmp_path, first, gone)
