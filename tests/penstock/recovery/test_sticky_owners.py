"""A job that goes on at one parallelism after another: the answer is the same, and no state moves that need not."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock import col, count, sum_
from penstock.engine.restore.key_group_owners import noted_owners
from penstock.model.connectors import ENDED, NOTHING, Read, Reader, Source
from penstock.model.key_groups import Owners
from penstock.state.checkpoints.manifest import CheckpointManifest, decode_manifest
from tests.penstock.recovery.stopped_jobs import LONG_S, written

ROWS = 4_000
BATCH = 100
LIVES = (3, 4, 2, 5)
"""The parallelism of each life; they read the same number of rows."""

Pipeline = Callable[[ps.Stream, ps.Stream], ps.Stream]


def table(seed: int) -> pa.Table:
    dice = np.random.default_rng(seed)
    times = np.sort(dice.integers(0, 60_000_000, ROWS)) + dice.integers(0, 900_000, ROWS)
    return pa.table(
        {
            "key": dice.integers(0, 400, ROWS),
            "value": dice.integers(0, 1_000, ROWS),
            "at": pa.array(times, pa.timestamp("us")),
        }
    )


class Stopping(Source):
    """Gives rows in small batches, so many of them, and then nothing more; all of them: it ends."""

    # One that has come to its stop holds the other up to its own.
    aligned = False

    def __init__(self, seed: int, stop: int) -> None:
        self.rows = table(seed)
        self.stop = stop
        self.bounded = stop == ROWS
        self.read = threading.Event()

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def partitions(self, parallelism: int) -> list[str]:
        return ["only"]

    def open(self, partition: str, position: Any | None) -> Reader:
        return _StoppingReader(self, position or 0)


class _StoppingReader(Reader):
    def __init__(self, source: Stopping, position: int) -> None:
        self._source, self._position = source, position

    def read(self, max_rows: int) -> Read:
        source = self._source
        if self._position == source.stop:
            source.read.set()
            return ENDED if source.bounded else NOTHING
        batch = source.rows.slice(self._position, BATCH).combine_chunks().to_batches()[0]
        self._position += BATCH
        return Read(batch)

    def position(self) -> int:
        return self._position


def cascaded(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    """Windows over windows, and a count over these: all by one key, so rows stay with their instance."""
    small = left.key_by("key").window(ps.tumbling("2s")).agg(n=count(), total=sum_("value")).name("small")
    wide = small.key_by("key").window(ps.tumbling("10s")).agg(n=sum_("n"), most=ps.max_("total")).name("wide")
    return wide.key_by("n", "key").agg(windows=count(), most=sum_("most")).name("counts")


def joined(left: ps.Stream, right: ps.Stream) -> ps.Stream:
    """An interval join, windows over it by its key, and an updating join of these with a count."""
    other = right.rename(value="other", at="then")
    near = left.interval_join(other, on="key", between=("-2s", "1s")).name("near")
    windows = near.key_by("key").window(ps.tumbling("5s")).agg(n=count(), total=sum_("other")).name("windows")
    counts = right.filter(col("value") < 300).key_by("key").agg(seen=count()).name("counts")
    return windows.join(counts, on="key", how="left").name("both")


def live(pipeline: Pipeline, folder: Path, stop: int, **options: Any) -> None:
    """Run until so many rows of each side were read, and stop with a checkpoint; of all rows to the end."""
    job, sources = ps.Job(), [Stopping(1, stop), Stopping(2, stop)]
    left, right = (
        ps.read(source, time="at", watermark="1s", job=job).name(name)
        for source, name in zip(sources, ("left", "right"), strict=True)
    )
    result = pipeline(left, right)
    result.write_json(str(folder / "out"), mode="changelog" if result.updating else "append").name("out")
    for stream, name in ((left, "all of the left"), (right, "all of the right")):
        # A side that the pipeline does not read is read all the same.
        stream.write_black_hole().name(name)
    fixed = {"checkpoint_dir": folder / "checkpoints", "directory": folder / "job", "checkpoint_interval": "1h"}
    if stop == ROWS:
        job.run("moved", **fixed, **options)
        return
    handle = job.start("moved", **fixed, **options)
    try:
        for source in sources:
            assert source.read.wait(LONG_S)
    finally:
        handle.stop()


def last_manifest(folder: Path) -> CheckpointManifest:
    manifests = [decode_manifest(path.read_bytes()) for path in folder.glob("checkpoints/**/checkpoints/*.json")]
    return max(manifests, key=lambda manifest: manifest.epoch)


def owners(manifest: CheckpointManifest) -> dict[str, Owners]:
    """Return who owned each key group, by operator with state that lies by key."""
    names = {item.operator for item in manifest.instances} & {"small", "wide", "counts", "near", "windows", "both"}
    return {
        name: noted_owners([item for item in manifest.instances if item.operator == name], manifest.key_groups)
        for name in names
    }


@pytest.mark.parametrize("state_bytes", [None, 200_000], ids=["in memory", "in pages"])
@pytest.mark.parametrize("pipeline", [cascaded, joined])
def test_lives_at_several_parallelisms_are_one(pipeline: Pipeline, state_bytes: int | None, tmp_path: Path) -> None:
    live(pipeline, tmp_path / "whole", ROWS, parallelism=2)
    before: dict[str, Owners] = {}
    for number, parallelism in enumerate(LIVES, start=1):
        stop = ROWS * number // len(LIVES)
        live(pipeline, tmp_path / "moved", stop, parallelism=parallelism, state_bytes=state_bytes)
        after = owners(last_manifest(tmp_path / "moved"))
        for name, table in after.items():
            sizes = np.bincount(table, minlength=parallelism)
            assert len(sizes) == parallelism and sizes.max() - sizes.min() <= 1
            if name in before:
                was = int(before[name].max()) + 1
                least = len(table) * abs(parallelism - was) / max(parallelism, was)
                assert (before[name] != table).sum() <= least + parallelism
                if (was, parallelism) == (3, 4):
                    assert (before[name] != table).sum() <= len(table) / 4 + 1
        before = after
    assert written(tmp_path / "moved") == written(tmp_path / "whole")


@pytest.mark.parametrize("state_bytes", [None, 200_000], ids=["in memory", "in pages"])
def test_lives_of_more_instances_than_key_groups_are_one(state_bytes: int | None, tmp_path: Path) -> None:
    options: dict[str, Any] = {"key_groups": 4, "state_bytes": state_bytes}
    live(cascaded, tmp_path / "whole", ROWS, parallelism=2)
    for number, parallelism in enumerate((6, 3, 5, 6), start=1):
        live(cascaded, tmp_path / "moved", ROWS * number // 4, parallelism=parallelism, **options)
    assert written(tmp_path / "moved") == written(tmp_path / "whole")
