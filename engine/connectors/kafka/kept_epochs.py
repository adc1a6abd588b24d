"""The messages of an epoch in a durable file, kept from its barrier until the broker has them for good.

Written by the sink's writers, read by the publisher. A file is an Arrow IPC stream of messages; its digest is in the
receipt, and nothing is parsed before it was verified.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, cast
from uuid import uuid4

import pyarrow as pa

from penstock.engine.connectors.kafka.receipts import Marker, Receipt
from penstock.model.errors import FatalError
from penstock.model.failpoints import failpoint
from penstock.model.sink_context import KeptFiles

SPILL_BYTES = 32 << 20
"""What is kept in memory of an epoch that is being written or read; more goes to a temporary file."""

_DIGEST_BYTES = 32
_CHUNK_BYTES = 1 << 20
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_SUFFIX = ".arrow"


class EpochFile:
    """The messages of the epoch that is being written; in memory, then in a temporary file that nobody else sees."""

    def __init__(self) -> None:
        """Begin with none."""
        self.rows = 0
        self._spill: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def add(self, messages: pa.RecordBatch) -> None:
        """Take messages."""
        if not messages.num_rows:
            return
        if self._writer is None:
            self._spill = _spill()
            self._writer = pa.ipc.new_stream(pa.PythonFile(self._spill, "w"), messages.schema, options=_OPTIONS)
        self._writer.write_batch(messages)
        self.rows += messages.num_rows

    def finish(self) -> IO[bytes] | None:
        """Return the bytes, from the start, and begin anew; None without messages. Whoever takes them closes them."""
        spill = self._spill
        if spill is not None:
            assert self._writer is not None
            self._writer.close()
            spill.seek(0)
        self.rows, self._spill, self._writer = 0, None, None
        return spill

    def discard(self) -> None:
        """Forget everything."""
        spill = self.finish()
        if spill is not None:
            spill.close()


class KeptEpochs:
    """The kept files of one sink."""

    def __init__(self, files: KeptFiles) -> None:
        """Keep them among these files, which are the sink's own."""
        self._files = files

    def keep(self, last: Marker, transactional_id: str, epoch: int, messages: EpochFile) -> Receipt:
        """Write messages for good and return the receipt; ``last`` is the marker that their sink left when it began.

        Raises:
            RetryableError: they cannot be written.
        """
        rows = messages.rows
        spill = messages.finish()
        if spill is None:
            return Receipt(last.run, last.start, transactional_id, epoch, 0)
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        # Two starts may write the same epoch of a run, one of which does not know yet that it is over.
        name = f"{last.run}-{epoch:010d}-{uuid4().hex}{_SUFFIX}"
        failpoint("kafka.kept.before_write")
        with spill:
            size = self._files.write(name, _digested(spill, digest))
        failpoint("kafka.kept.written")
        return Receipt(last.run, last.start, transactional_id, epoch, rows, name, size, digest.hexdigest())

    def read(self, receipt: Receipt) -> Iterator[pa.RecordBatch] | None:
        """Return the messages of a receipt, verified before the first one; None if their file is not there.

        Raises:
            FatalError: the file is not what was written.
            RetryableError: it cannot be read.
        """
        if receipt.file is None:
            return iter(())
        spill = _spill()
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        try:
            for chunk in self._files.chunks(receipt.file):
                digest.update(chunk)
                spill.write(chunk)
        except FileNotFoundError:
            spill.close()
            return None
        if digest.hexdigest() != receipt.digest:
            spill.close()
            raise FatalError(
                f"the kept output of checkpoint {receipt.epoch} is damaged: {receipt.file!r} in the checkpoint "
                f"directory differs from the {receipt.bytes} bytes that were written; bring it back from a copy, or "
                "restore an earlier checkpoint with --accept-duplicates"
            )
        spill.seek(0)
        return _batches(spill)

    def delete(self, receipts: Iterable[Receipt]) -> None:
        """Delete the files of receipts.

        Raises:
            RetryableError: they cannot be deleted.
        """
        names = [receipt.file for receipt in receipts if receipt.file is not None]
        if names:
            self._files.delete(*names)

    def clean(self, published: Marker) -> None:
        """Delete every file of a run up to the epoch that is published.

        Those of later epochs stay until theirs is: a process that does not know yet that it is over may complete it.

        Raises:
            RetryableError: they cannot be listed or deleted.
        """
        last = f"{published.run}-{published.epoch:010d}~"
        names = [name for name in self._files.list() if name.startswith(f"{published.run}-") and name < last]
        if names:
            self._files.delete(*names)


def missing_files(receipts: Sequence[Receipt]) -> FatalError:
    """Return the error to raise if kept files are missing that were not published."""
    rows = sum(receipt.rows for receipt in receipts)
    return FatalError(
        f"{rows} messages of checkpoint {receipts[0].epoch} were not published, and the file that kept them, "
        f"{receipts[0].file!r}, is gone from the checkpoint directory: bring it back from a copy, or restore an "
        "earlier checkpoint with --accept-duplicates"
    )


def _spill() -> IO[bytes]:
    return cast(IO[bytes], tempfile.SpooledTemporaryFile(SPILL_BYTES))


def _digested(stream: IO[bytes], digest: hashlib.blake2b) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        digest.update(chunk)
        yield chunk


def _batches(spill: IO[bytes]) -> Iterator[pa.RecordBatch]:
    with spill, pa.ipc.open_stream(pa.PythonFile(spill, "r")) as reader:
        yield from reader
