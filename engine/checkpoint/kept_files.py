"""The log of what was kept, in files beside a job's checkpoints (docs/design/shedders.md 4).

``kept/<epoch>-<run>.jsonl`` has what was read between a checkpoint and the one before, and is a log of its own. It is
written before the manifest of its epoch; a file whose epoch was never published is deleted before a later one is
written, and at the next start.
"""

from collections.abc import Collection, Sequence

from penstock.model.failpoints import failpoint
from penstock.shedding.kept_log import Stretch, decode_kept_log, encode_kept_log, merged
from penstock.state.files.durable_files import DurableFiles

KEPT = "kept"
"""The folder of the log, below that of the job's checkpoints."""


class KeptFiles:
    """The files of one job's log, for the one process that publishes its checkpoints."""

    def __init__(self, files: DurableFiles, job: str, seed: int) -> None:
        """Nothing is touched yet; ``seed`` is that of the job's samples."""
        self._files, self._job, self._seed = files, job, seed
        self._unpublished: list[str] = []

    def write(self, epoch: int, run: int, stretches: Sequence[Stretch]) -> None:
        """Write what was read before an epoch that is about to be published, if anything was.

        Raises:
            RetryableError: the storage failed; nothing of the epoch counts then.
        """
        if self._unpublished:
            self._files.delete(*self._unpublished)
            self._unpublished.clear()
        if not stretches:
            return
        path = f"{KEPT}/{epoch:010d}-{run:010d}.jsonl"
        self._unpublished.append(path)
        failpoint("kept.before_write")
        self._files.write(path, encode_kept_log(self._job, self._seed, stretches))
        failpoint("kept.written")

    def published(self) -> None:
        """The manifest of the epoch that was written last is there."""
        self._unpublished.clear()

    def rewind(self, epoch: int, published: int, sources: Collection[str] | None = None) -> None:
        """The job goes back to an epoch: what was read behind it vanishes; ``published`` is the last that counts.

        With ``sources`` only these go back, and what others have read up to the last epoch stays.

        Raises:
            RetryableError: the storage failed; rewind again.
        """
        self._unpublished.clear()
        for name in self._files.list(KEPT):
            written, path = int(name[:10]), f"{KEPT}/{name}"
            if written <= epoch:
                continue
            left: list[Stretch] = []
            if sources is not None and written <= published:
                left = [item for item in decode_kept_log(self._files.read(path))[2] if item.source not in sources]
            if left:
                self._files.write(path, encode_kept_log(self._job, self._seed, left))
            else:
                self._files.delete(path)


def read_kept_files(files: DurableFiles, epoch: int) -> list[Stretch]:
    """Return what a job's log holds up to a checkpoint of this epoch; of each partition in order.

    Raises:
        ValueError: a file is none of a log.
    """
    names = [name for name in files.list(KEPT) if int(name[:10]) <= epoch]
    return merged(item for name in names for item in decode_kept_log(files.read(f"{KEPT}/{name}"))[2])
