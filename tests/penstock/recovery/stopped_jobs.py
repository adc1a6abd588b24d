"""Jobs that are stopped half-way, with their state in a checkpoint, and go on: unchanged, or as another pipeline."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.model.connectors import ENDED, NOTHING, Read, Reader, Source
from tests.penstock.front_door import Row, noon

SCHEMA = pa.schema(
    {
        "item": pa.string(),
        "shop": pa.string(),
        "price": pa.int64(),
        "fee": pa.int64(),
        "due": pa.timestamp("us"),
        "at": pa.timestamp("us"),
    }
)

LONG_S = 30.0
"""Longer than anything here takes."""


def _rows(*lines: tuple[str, str, int, int, float]) -> list[Row]:
    return [
        {"item": item, "shop": shop, "price": price, "fee": fee, "due": noon(at + 3), "at": noon(at)}
        for item, shop, price, fee, at in lines
    ]


LEFT = _rows(
    ("pen", "north", 3, 1, 1),
    ("ink", "south", 8, 2, 2),
    ("pen", "south", 5, 1, 9),
    ("cup", "north", 4, 3, 12),
    ("pen", "north", 7, 2, 13),
    ("ink", "north", 6, 1, 17),
    ("pen", "south", 2, 4, 31),
    ("cup", "north", 9, 1, 33),
    ("ink", "south", 1, 2, 36),
)
RIGHT = _rows(
    ("pen", "south", 30, 5, 2),
    ("cup", "south", 40, 6, 11),
    ("pen", "north", 20, 7, 16),
    ("ink", "north", 10, 8, 32),
    ("pen", "north", 50, 9, 37),
)
BEFORE = (6, 3)
"""How many rows of either side come before the stop."""

Pipeline = Callable[[ps.Stream, ps.Stream], ps.Stream]
"""Makes the result from both sides; whatever it keeps goes by the name that it gives it."""


class Rows(Source):
    """Gives some rows one by one; ``stop``: nothing comes after so many, and it does not end."""

    aligned = False

    def __init__(self, rows: Sequence[Row], stop: int | None = None) -> None:
        self._rows = rows
        self._stop = stop
        self.bounded = stop is None
        self.read = threading.Event()

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def partitions(self, parallelism: int) -> list[str]:
        return ["only"]

    def open(self, partition: str, position: Any | None) -> Reader:
        return _RowReader(self, position or 0)

    def next(self, position: int) -> Row | None:
        if position == self._stop:
            self.read.set()
            return None
        if position + 1 == self._stop:
            self.read.set()
        return self._rows[position]

    def has_ended(self, position: int) -> bool:
        return self._stop is None and position == len(self._rows)

    def describe(self) -> str:
        return "rows"


class _RowReader(Reader):
    def __init__(self, source: Rows, position: int) -> None:
        self._source = source
        self._position = position

    def read(self, max_rows: int) -> Read:
        if self._source.has_ended(self._position):
            return ENDED
        row = self._source.next(self._position)
        if row is None:
            return NOTHING
        self._position += 1
        return Read(pa.RecordBatch.from_pylist([row], schema=SCHEMA))

    def position(self) -> int:
        return self._position


def stopped(pipeline: Pipeline, folder: Path, accuracy: float = 1.0, **options: Any) -> None:
    """Run until the rows of `BEFORE` were read, and stop with a last checkpoint below ``folder``.

    ``accuracy`` is the minimum that the query allows.
    """
    left, right = Rows(LEFT, BEFORE[0]), Rows(RIGHT, BEFORE[1])
    handle = _job(pipeline, folder, left, right, accuracy).start("kept", **_options(folder, options))
    try:
        for source in (left, right):
            assert source.read.wait(LONG_S)
    finally:
        handle.stop()


def finished(
    pipeline: Pipeline, folder: Path, columns: Collection[str] | None = None, accuracy: float = 1.0, **options: Any
) -> list[Row]:
    """Run to the end of all rows, from the last checkpoint if there is one; return what was `written`, both lives."""
    _job(pipeline, folder, Rows(LEFT), Rows(RIGHT), accuracy).run("kept", **_options(folder, options))
    return written(folder, columns)


def written(folder: Path, columns: Collection[str] | None = None) -> list[Row]:
    """Return the rows in the output, or some columns of theirs, in a repeatable order.

    What a changelog took back is not among them.
    """
    counts: Counter[str] = Counter()
    for path in sorted((folder / "out").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            weight = row.pop("weight", 1)
            row = row if columns is None else {name: row[name] for name in columns}
            counts[json.dumps(row, sort_keys=True)] += weight
    assert min(counts.values(), default=0) >= 0
    return [json.loads(text) for text in sorted(counts.elements())]


def _job(pipeline: Pipeline, folder: Path, left: Source, right: Source, accuracy: float) -> ps.Job:
    job = ps.Job()
    streams = [
        ps.read(source, time="at", watermark="2s", job=job).name(name)
        for source, name in ((left, "left"), (right, "right"))
    ]
    result = pipeline(*streams)
    out = result.write_json(str(folder / "out"), mode="changelog" if result.updating else "append").name("out")
    out.with_min_accuracy(accuracy)
    # A side that the pipeline does not read is read all the same.
    streams[1].write_black_hole().name("all of the right")
    streams[0].write_black_hole().name("all of the left")
    return job


def _options(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    fixed = {"checkpoint_dir": folder / "checkpoints", "directory": folder / "job", "checkpoint_interval": "1h"}
    return {**fixed, **options}
