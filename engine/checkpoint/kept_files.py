"""The log of what was kept, in files beside a job's checkpoints (docs/design/shedders.md 4).

``kept/<epoch>-<run>.jsonl`` has what was read between a checkpoint and the one before, and is a log of its own. It is
written before the manifest of its epoch; a file whose epoch was never published is deleted before a later one is
written, and at the next start. Files between which no checkpoint or savepoint is left are merged from time to time
(`KeptFiles.merge`) into ``kept/<epoch>-<run>-<since>.jsonl``, which from then on stands for all from ``since`` on.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence

from penstock.model.failpoints import failpoint
from penstock.shedding.kept_log import (
    Stretch,
    decode_kept_log,
    encode_kept_log,
    epoch_of,
    merged,
    since_of,
    standing_parts,
)
from penstock.state.files.durable_files import DurableFiles

KEPT = "kept"
"""The folder of the log, below that of the job's checkpoints."""

MOST_PARTS = 64
"""So many small files between two checkpoints that are left are merged into one."""

LARGE_BYTES = 4 << 20
"""A file of so many bytes is merged no more, so that nothing is written again and again."""


class KeptFiles:
    """The files of one job's log, for the one process that publishes its checkpoints."""

    def __init__(self, files: DurableFiles, job: str, seed: int) -> None:
        """Nothing is touched yet; ``seed`` is that of the job's samples."""
        self._files, self._job, self._seed = files, job, seed
        self._unpublished: list[str] = []
        self._unmerged = MOST_PARTS
        # Checkpoints are retained in the background, while the job may go back to one.
        self._merging = threading.Lock()

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
        self._unmerged += 1
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
        with self._merging:
            for name in self._files.list(KEPT):
                if epoch_of(name) > epoch:
                    self._take_back(name, sources if epoch_of(name) <= published else None)

    def _take_back(self, name: str, sources: Collection[str] | None) -> None:
        path, left = f"{KEPT}/{name}", list[Stretch]()
        if sources is not None:
            left = [item for item in decode_kept_log(self._files.read(path))[2] if item.source not in sources]
        if left:
            self._files.write(path, encode_kept_log(self._job, self._seed, left))
        else:
            self._files.delete(path)

    def merge(self, epochs: Callable[[], Collection[int]]) -> None:
        """Merge small files of which there are many, where a job can go back to no epoch between them.

        ``epochs`` returns those that it can go back to. The merged file is there before any other goes, and counts in
        their place; after a crash in between, the others go the next time.

        Raises:
            RetryableError: the storage failed; the log is as it was, merge again.
        """
        if self._unmerged < MOST_PARTS:
            return
        with self._merging:
            # Files of epochs that are published later are in no group.
            left = sorted(epochs())
            names = self._files.list(KEPT)
            standing = standing_parts(names)
            self._files.delete(*(f"{KEPT}/{name}" for name in names if name not in standing))
            if len(standing) >= MOST_PARTS:
                groups: dict[int, list[str]] = {}
                for name in standing:
                    groups.setdefault(bisect_left(left, epoch_of(name)), []).append(name)
                for group, parts in groups.items():
                    if group < len(left):
                        self._merge(parts)
        self._unmerged = 0

    def _merge(self, parts: Sequence[str]) -> None:
        """Merge the files behind the last large one of a range of epochs, if they are many."""
        sizes = [self._files.size(f"{KEPT}/{name}") or 0 for name in parts]
        large = [at for at, size in enumerate(sizes) if size >= LARGE_BYTES]
        small = parts[large[-1] + 1 if large else 0 :]
        if len(small) < MOST_PARTS // 2:
            return
        data = [decode_kept_log(self._files.read(f"{KEPT}/{name}"))[2] for name in small]
        run = small[-1].removesuffix(".jsonl").split("-")[1]
        merged_name = f"{epoch_of(small[-1]):010d}-{run}-{since_of(small[0]):010d}.jsonl"
        stretches = merged(item for part in data for item in part)
        failpoint("kept.before_merge")
        self._files.write(f"{KEPT}/{merged_name}", encode_kept_log(self._job, self._seed, stretches))
        failpoint("kept.merged")
        self._files.delete(*(f"{KEPT}/{name}" for name in small if name != merged_name))


def read_kept_files(files: DurableFiles, epoch: int) -> list[Stretch]:
    """Return what a job's log holds up to a checkpoint of this epoch; of each partition in order.

    Raises:
        ValueError: a file is none of a log.
    """
    names = standing_parts(name for name in files.list(KEPT) if epoch_of(name) <= epoch)
    return merged(item for name in names for item in decode_kept_log(files.read(f"{KEPT}/{name}"))[2])
