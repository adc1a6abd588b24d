"""Sinks that write Parquet, JSON lines and CSV. Built by the DSL's ``write_...`` methods.

Each instance writes one file, which appears under its name when the job has ended; a job that fails leaves none. In a
job that takes checkpoints each instance writes a file per checkpoint, which appears when that is complete.
"""

from abc import ABC
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import pyarrow as pa

from penstock.engine.connectors.files.committed_files import CommittedFolder
from penstock.engine.connectors.files.encoders import CsvEncoder, Encoder, JsonLinesEncoder, ParquetEncoder
from penstock.engine.connectors.files.finished_files import FinishedFile, output_path, remove_other_parts
from penstock.engine.connectors.files.staged_files import StagedFile
from penstock.model.connectors import Sink, Writer
from penstock.model.errors import BugError, UserError
from penstock.model.sink_context import OutputRun, SinkContext


class FileSink(Sink, ABC):
    """The base of the file sinks: ``path`` is a file if it has a suffix and there is one instance, else a directory.

    An existing file is replaced once the new one is complete, so are the parts of an earlier run in a directory.
    With checkpoints ``path`` is a directory, and what an earlier run left there is removed when the job begins.
    """

    suffix: ClassVar[str]
    encoder: ClassVar[type[Encoder]]
    transactional = True

    def __init__(self, path: str | Path) -> None:
        """Nothing is written yet."""
        self.path = Path(path).expanduser()
        """The files that it writes."""
        self._folder: CommittedFolder | None = None

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Begin the instance's file.

        Raises:
            UserError: the file cannot be written.
        """
        if self._folder is not None:
            return _CheckpointWriter(self._folder, self.encoder, schema, instance)
        target = output_path(self.path, self.suffix, instance, parallelism)
        file = FinishedFile(target)
        writer = _FileWriter(file, self.encoder(file.stream, schema))
        if target != self.path and instance == 0:
            writer.committed = lambda: self._replace_others(parallelism)
        return writer

    def exclusive(self) -> Path:
        """Return the path: two runs would replace each other's files."""
        return self.path

    def begin_run(self, run: OutputRun) -> None:
        """Let what is written with checkpoints be that of this run."""
        if self._folder is not None:
            self._folder.begin_run(run)

    def check_transactional(self) -> None:
        """Refuse a path that means one file.

        Raises:
            UserError: it does.
        """
        if self.path.is_file() or (self.path.suffix and not self.path.is_dir()):
            raise UserError(
                f"cannot write to the file {str(self.path)!r} with checkpoints, as each of them adds files: give a "
                f"directory, such as {str(self.path.with_suffix(''))!r}"
            )

    def with_checkpoints(self, context: SinkContext | None = None) -> Self:
        """Return a sink that writes a file per checkpoint into its directory; it keeps all it needs there."""
        self.check_transactional()
        copy = type(self)(self.path)
        copy._folder = CommittedFolder(
            self.path,
            self.suffix,
            sink=None if context is None else context.operator,
            accept_changed=context is not None and context.accept_changed,
        )
        return copy

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        """Publish the manifest of the epoch and put its files in place."""
        self._committed().commit(epoch, receipts)

    def recover(self, epoch: int | None, receipts: Sequence[Any]) -> None:
        """Bring the directory to what it was when the checkpoint had been committed."""
        self._committed().recover(epoch, receipts)

    def join(self, epoch: int) -> None:
        """Begin anew in the directory behind a checkpoint that does not know the sink."""
        self._committed().join(epoch)

    def claim(self) -> Any:
        """Return in whose folder its writers stage files."""
        return None if self._folder is None else self._folder.claim()

    def adopt(self, epoch: int, receipts: Sequence[Any], claim: Any) -> None:
        """Go on with writers that live, in the folder in which they stage files."""
        self._committed().adopt(epoch, receipts, claim)

    def describe(self) -> str:
        """Name the path."""
        return f"write {self.path}"

    def _committed(self) -> CommittedFolder:
        if self._folder is None:
            raise BugError(f"{self.describe()!r} was opened without checkpoints and cannot commit one")
        return self._folder

    def _replace_others(self, parallelism: int) -> None:
        remove_other_parts(self.path, self.suffix, parallelism)
        CommittedFolder(self.path, self.suffix).remove_epochs()


class ParquetSink(FileSink):
    """Writes Parquet."""

    suffix = ".parquet"
    encoder = ParquetEncoder


class JsonLinesSink(FileSink):
    """Writes JSON lines: NaN and infinities as null, times as ISO 8601, bytes as base64."""

    suffix = ".jsonl"
    encoder = JsonLinesEncoder


class CsvSink(FileSink):
    """Writes CSV with a header; missing values are empty."""

    suffix = ".csv"
    encoder = CsvEncoder


class _FileWriter(Writer):
    """Writes one file; calls ``committed`` when it is in place."""

    def __init__(self, file: FinishedFile, encoder: Encoder) -> None:
        self._file = file
        self._encoder = encoder
        self.committed: Callable[[], None] | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        self._encoder.write(rows)

    def flush(self) -> None:
        """Hand what is encoded to the system."""
        self._file.stream.flush()

    def prepare(self, epoch: int) -> Any:
        raise BugError("a sink that was opened without checkpoints cannot prepare one")

    def close(self) -> None:
        """Complete the file and put it in place."""
        try:
            self._encoder.finish()
            self._file.commit()
        except BaseException:
            self._file.discard()
            raise
        if self.committed is not None:
            self.committed()

    def abort(self) -> None:
        """Remove the file."""
        self._encoder.abandon()
        self._file.discard()


class _CheckpointWriter(Writer):
    """Writes a file per checkpoint, begun with its first row: checkpoints without rows have none."""

    def __init__(self, folder: CommittedFolder, encoder: type[Encoder], schema: pa.Schema, instance: int) -> None:
        self._folder = folder
        self._make = encoder
        self._schema = schema
        self._instance = instance
        self._rows = 0
        self._open: tuple[StagedFile, Encoder] | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._open is None:
            file = self._folder.begin(self._instance)
            self._open = file, self._make(file.stream, self._schema)
        with self._folder.writing():
            self._open[1].write(rows)
        self._rows += rows.num_rows

    def flush(self) -> None:
        """Hand what is encoded to the system."""
        if self._open is not None:
            self._open[0].stream.flush()

    def prepare(self, epoch: int) -> Any:
        """Complete the file and bring it to disk; return it as `from_receipts` takes it."""
        if self._open is None:
            return []
        file, encoder = self._open
        with self._folder.writing():
            encoder.finish()
            staged = file.stage(epoch, self._rows)
        self._open, self._rows = None, 0
        return msgspec.to_builtins([staged])

    def close(self) -> None:
        """End behind the last checkpoint.

        Raises:
            BugError: rows came after it, which nobody would see.
        """
        rows = self._rows
        self.abort()
        if rows:
            raise BugError(f"{rows} rows were written after the last checkpoint, and the sink was closed")

    def abort(self) -> None:
        """Remove what no checkpoint holds."""
        if self._open is not None:
            file, encoder = self._open
            self._open, self._rows = None, 0
            encoder.abandon()
            file.discard()
