"""A job that writes files by checkpoints, and dies where a test says; for the tests of committed files."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.engine.connectors.files.sinks import CsvSink, FileSink, JsonLinesSink, ParquetSink
from penstock.engine.connectors.parquet.source import ParquetSource
from penstock.engine.connectors.text.csv_files import CsvSource
from penstock.engine.connectors.text.json_lines import JsonLinesSource
from penstock.model.connectors import Sink, Source, Writer
from penstock.model.failpoints import arm
from tests.engine.connectors.reading import read_all

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
INSTANCES = 2
KINDS: list[tuple[type[FileSink], Callable[[Path, pa.Schema], Source]]] = [
    (ParquetSink, ParquetSource),
    (JsonLinesSink, JsonLinesSource),
    (CsvSink, CsvSource),
]


class Death(BaseException):
    """The process is no more."""


def numbers(epoch: int, instance: int) -> list[int]:
    """What an instance writes between two checkpoints: nothing in every third, and the second instance in the first."""
    return [] if epoch % 3 == 2 or (epoch == 1 and instance) else [1000 * epoch + 10 * instance + row for row in (1, 2)]


def up_to(epoch: int) -> list[int]:
    return sorted(x for known in range(1, epoch + 1) for instance in range(INSTANCES) for x in numbers(known, instance))


def rows(values: Sequence[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"a": value, "s": f"no. {value}"} for value in values], schema=SCHEMA)


class Job:
    """A job that writes to one directory, with its checkpoints; `crash_at` counts failpoints to its death."""

    def __init__(self, path: Path, kind: type[FileSink] = JsonLinesSink) -> None:
        self.path = path
        self.kind = kind
        self.complete: dict[int, str] = {}
        self.passed: list[str] = []

    @property
    def epoch(self) -> int | None:
        """The latest complete checkpoint."""
        return max(self.complete, default=None)

    def crash_at(self, step: int | None) -> None:
        self.passed = []

        def pass_by(name: str) -> None:
            self.passed.append(name)
            if len(self.passed) - 1 == step:
                raise Death

        arm(pass_by)

    def recover(self, epoch: int | None) -> Sink:
        """Start a process that goes on from a checkpoint: nothing is left of the last one but its files."""
        sink = self.kind(self.path).with_checkpoints()
        self.complete = {known: text for known, text in self.complete.items() if epoch is not None and known <= epoch}
        sink.recover(epoch, [] if epoch is None else json.loads(self.complete[epoch]))
        return sink

    def run(self, last: int) -> None:
        """Recover from the latest checkpoint and write on until checkpoint ``last`` is committed."""
        sink = self.recover(self.epoch)
        writers = [sink.open(SCHEMA, instance, INSTANCES) for instance in range(INSTANCES)]
        for epoch in range((self.epoch or 0) + 1, last + 1):
            write(writers, epoch)
            text = json.dumps([writer.prepare(epoch) for writer in writers])
            self.complete[epoch] = text
            sink.commit(epoch, json.loads(text))
        for writer in writers:
            writer.close()

    def visible(self) -> list[int]:
        """What a plain glob sees: every line whole, every file readable on its own."""
        found = [path for path in self.path.glob("*") if path.is_file()] if self.path.is_dir() else []
        if self.kind is JsonLinesSink:
            return sorted(json.loads(line)["a"] for path in found for line in path.read_text().splitlines())
        source = dict(KINDS)[self.kind]
        return sorted(value for path in found for value in read_all(source(path, SCHEMA)).column("a"))


def write(writers: Sequence[Writer], epoch: int) -> None:
    for instance, writer in enumerate(writers):
        for value in numbers(epoch, instance):
            writer.write(rows([value]))
        writer.write(rows([]))
        writer.flush()
