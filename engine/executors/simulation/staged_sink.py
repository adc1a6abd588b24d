"""The sink that stands for a user's in a simulated run: transactional, on the simulated disk, never written outside."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.model.connectors import Sink, Writer
from penstock.model.errors import FatalError
from penstock.state.files.durable_files import DurableFiles


class StagedSink(Sink):
    """Rows of an instance and epoch are a file below ``<name>/staged``; one in ``<name>/committed`` lists an epoch's.

    Of a plan many runs are made, so the files are handed in by `on`.
    """

    transactional = True

    def __init__(self, name: str, files: DurableFiles | None = None, *, in_caller: bool = False) -> None:
        """``name`` is the folder's."""
        self.name = name
        self.in_caller = in_caller
        self._files = files

    def __getstate__(self) -> dict[str, Any]:
        """Leave the files here: whoever is sent the sink has its own."""
        return {"name": self.name, "in_caller": self.in_caller, "_files": None}

    def on(self, files: DurableFiles) -> "StagedSink":
        """Return this sink on a disk."""
        return StagedSink(self.name, files, in_caller=self.in_caller)

    @property
    def files(self) -> DurableFiles:
        """The files that it writes."""
        assert self._files is not None
        return self._files

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Open a writer."""
        return _StagedWriter(self, schema, instance)

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        """List the receipts' files as committed, once."""
        path = f"{self.name}/committed/{epoch:010d}.json"
        if not self.files.exists(path):
            self.files.write(path, json.dumps([str(receipt) for receipt in receipts]).encode())

    def recover(self, epoch: int | None, receipts: Sequence[Any]) -> None:
        """Take back what came after the epoch, and finish its commit."""
        later = [item for item in self._epochs() if epoch is None or item > epoch]
        self.files.delete(*(f"{self.name}/committed/{item:010d}.json" for item in reversed(later)))
        if epoch is not None:
            self.commit(epoch, receipts)
        kept = {path for item in self._epochs() for path in self._listed(item)}
        staged = [f"{self.name}/staged/{name}" for name in self.files.list(f"{self.name}/staged")]
        self.files.delete(*(path for path in staged if path not in kept))

    def adopt(self, epoch: int, receipts: Sequence[Any], claim: Any) -> None:
        """Make sure that what the writers have staged is there, and nothing was committed behind the epoch.

        Raises:
            FatalError: it is not so.
        """
        if any(item > epoch for item in self._epochs()):
            raise FatalError(f"{self.name!r} holds what was committed behind checkpoint {epoch}")
        missing = [path for path in receipts if path is not None and not self.files.exists(path)]
        if missing:
            raise FatalError(f"{missing[0]!r} is gone, which a writer that lives has staged")

    def committed(self) -> pa.Table | None:
        """Return the committed rows in order of their epochs; None if there are none."""
        batches: list[pa.RecordBatch] = []
        for epoch in self._epochs():
            for path in self._listed(epoch):
                with pa.ipc.open_stream(self.files.read(path)) as reader:
                    batches += list(reader)
        return pa.Table.from_batches(batches) if batches else None

    def _epochs(self) -> list[int]:
        return [int(name.removesuffix(".json")) for name in self.files.list(f"{self.name}/committed")]

    def _listed(self, epoch: int) -> list[str]:
        listed: list[str] = json.loads(self.files.read(f"{self.name}/committed/{epoch:010d}.json"))
        return listed


class _StagedWriter(Writer):
    def __init__(self, sink: StagedSink, schema: pa.Schema, instance: int) -> None:
        self._sink = sink
        self._schema = schema
        self._instance = instance
        self._batches: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self._batches.append(rows)

    def prepare(self, epoch: int) -> str | None:
        if not self._batches:
            return None
        path = f"{self._sink.name}/staged/{epoch:010d}-{self._instance:04d}.arrow"
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, self._schema) as writer:
            for batch in self._batches:
                writer.write_batch(batch)
        self._sink.files.write(path, out.getvalue().to_pybytes())
        self._batches = []
        return path
