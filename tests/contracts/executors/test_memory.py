"""The memory of an operator changes while it runs: state goes to its pages and comes back, and no result changes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.dsl.handle import Handle
from penstock.engine.jobs.running_memory import OperatorMemory
from penstock.model.connectors import ENDED, NOTHING, Read, Reader, Source
from penstock.model.errors import OptionError
from tests.contracts.executors.metered import task_managers, until
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.test_rescaling import running
from tests.contracts.executors.ways import PROCESSES

MB = 1 << 20
KEYS, ROWS = 100_000, 200_000
LITTLE = 4 * MB
WAYS: tuple[Mapping[str, Any], ...] = ({"executor": "embedded"}, PROCESSES)
SCHEMA = pa.schema({"key": pa.int64(), "text": pa.string()})


class Texts(Source):
    """Texts of a hundred bytes, the keys in turns, up to as many as a file says, and the end behind all."""

    bounded = False
    aligned = False

    def __init__(self, meter: Path) -> None:
        self.meter = meter

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def partitions(self, parallelism: int) -> list[str]:
        return ["0"]

    def open(self, partition: str, position: Any | None) -> Reader:
        return _TextsReader(self.meter, position or 0)


class _TextsReader(Reader):
    def __init__(self, meter: Path, row: int) -> None:
        self._meter, self._row = meter, row

    def read(self, max_rows: int) -> Read:
        if self._row == ROWS:
            return ENDED
        first, last = self._row, min(self._row + min(max_rows, 5_000), int(self._meter.read_text()))
        if last <= first:
            return NOTHING
        self._row = last
        keys = [row % KEYS for row in range(first, last)]
        return Read(pa.record_batch([pa.array(keys), pa.array([f"{row:0100d}" for row in range(first, last)])], SCHEMA))

    def position(self) -> int:
        return self._row


@contextmanager
def keeping(folder: Path, **options: Any) -> Iterator[Handle]:
    """Run a job that keeps the last text of each key, of which half are there, and stop it."""
    meter = folder / "meter"
    if not meter.exists():
        give(folder, KEYS)
    job = ps.Job()
    texts = ps.read(Texts(meter), job=job).name("texts")
    last = texts.key_by("key").agg(n=ps.count(), last=ps.max_("text")).name("last")
    last.write_parquet(folder / "out", mode="changelog").name("out")
    if options.setdefault("checkpoint_dir", folder / "checkpoints") is not None:
        options |= {"checkpoint_interval": "1h", "restart_delay": "1ms"}
    handle = job.start("keeping", directory=folder / "job", **options)
    try:
        yield handle
    finally:
        if handle.running:
            handle.stop()


def give(folder: Path, rows: int) -> None:
    draft = folder / "meter.draft"
    draft.write_text(str(rows))
    draft.rename(folder / "meter")


def held(handle: Handle) -> int:
    return handle.metrics().state_bytes


def check(folder: Path) -> None:
    """Hold the output against what it must be: each key's last text, counted twice."""
    table = pa.concat_tables([pq.read_table(path) for path in (folder / "out").glob("*.parquet")])
    rows: dict[tuple[int, int, str], int] = {}
    columns = ("key", "n", "last", "$weight" if "$weight" in table.column_names else "weight")
    for key, n, last, weight in zip(*(table.column(name).to_pylist() for name in columns), strict=True):
        rows[key, n, last] = rows.get((key, n, last), 0) + weight
    left = {row for row, weight in rows.items() if weight}
    assert left == {(key, 2, f"{KEYS + key:0100d}") for key in range(KEYS)}
    assert all(rows[row] == 1 for row in left)


@pytest.mark.parametrize("way", WAYS, ids=("embedded", "processes"))
def test_state_goes_to_pages_and_comes_back_without_a_restart(tmp_path: Path, way: Mapping[str, Any]) -> None:
    with keeping(tmp_path, **way, parallelism=2) as handle:
        until(lambda: held(handle) > 3 * LITTLE, handle)
        summary = handle.set_memory({"last": LITTLE})
        assert summary.operators == (OperatorMemory("last", 2, None, LITTLE),)
        until(lambda: held(handle) < 2 * LITTLE, handle)
        handle.set_memory({"last": "1GB"})
        give(tmp_path, ROWS)
        handle.wait()
        counted = handle.metrics().checkpoints
        assert counted is not None and counted.restarts == 0
    check(tmp_path)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(WAYS[0], id="embedded"),
        pytest.param(
            PROCESSES, id="processes", marks=pytest.mark.long("half a minute; embedded has the same without a kill")
        ),
    ],
)
def test_it_holds_for_what_begins_anew_and_for_runs_that_follow(tmp_path: Path, way: Mapping[str, Any]) -> None:
    with keeping(tmp_path, **way, parallelism=2) as handle:
        until(lambda: held(handle) > 3 * LITTLE, handle)
        handle.set_memory({"last": LITTLE})
        until(lambda: held(handle) < 2 * LITTLE, handle)
        handle.savepoint("here")
        if way is PROCESSES:
            kill(task_managers()[0].pid)
            until(lambda: (counted := handle.metrics().checkpoints) is not None and counted.restarts == 1, handle)
        else:
            handle.rescale("last", 3)
        # What is read anew goes to pages, too.
        until(lambda: running(handle).status().state == "running", handle)
        assert running(handle).memory().operators[0].after_bytes == LITTLE
        handle.stop()
    with keeping(tmp_path, **way, parallelism=2) as handle:
        until(lambda: running(handle).memory().operators[0].after_bytes == LITTLE, handle)
        give(tmp_path, ROWS)
        most = 0
        while handle.running:
            most = max(most, held(handle))
        assert 0 < most < 3 * LITTLE
    check(tmp_path)


def test_an_instance_that_comes_while_the_job_runs_has_it_too(tmp_path: Path) -> None:
    with keeping(tmp_path, executor="processes", task_managers=1, parallelism=1) as handle:
        until(lambda: held(handle) > 3 * LITTLE, handle)
        handle.set_memory({"last": LITTLE})
        until(lambda: held(handle) < LITTLE, handle)
        # The task manager that comes for it was there for none of that.
        handle.scale(2)
        until(lambda: len({place for name, place in handle.places().items() if "last" in name}) == 2, handle)
        until(lambda: held(handle) < 2.5 * LITTLE, handle)
        give(tmp_path, ROWS)
        looks = []
        while handle.running:
            looks.append(held(handle))
        # Most of the time, not all of it: what comes in a moment goes to pages in the next.
        assert 0 < median(looks) < 2.5 * LITTLE
    check(tmp_path)


def test_what_cannot_be_is_refused_and_the_job_runs_on(tmp_path: Path) -> None:
    with keeping(tmp_path) as handle:
        with pytest.raises(OptionError, match="no operator 'texts' has state by keys, whose memory could change"):
            handle.set_memory({"texts": "1GB"})
        with pytest.raises(OptionError, match="at least 2097152"):
            handle.set_memory({"last": 5})
        give(tmp_path, ROWS)
        handle.wait()
    check(tmp_path)


def test_a_job_that_has_nowhere_to_put_its_state_says_so(tmp_path: Path) -> None:
    with (
        keeping(tmp_path, checkpoint_dir=None) as handle,
        pytest.raises(OptionError, match="keeps all its state in memory"),
    ):
        handle.set_memory({"last": "1GB"})
