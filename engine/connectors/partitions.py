"""Names the partitions of sources: shares of what can be cut anywhere, and files. Called by such sources.

Every file is a partition, so that files whose times overlap are read side by side, each with its own watermark.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.model.errors import BugError

MAX_FILE_PARTITIONS = 256
"""From how many files on neighbours share a partition, which keeps few of them open. Stored positions depend on it."""

_ALONE = " 0/1"


@dataclass(frozen=True, slots=True)
class FilePartition:
    """Files that are read one after another, of each only the pieces of one share; ``first`` numbers the first file."""

    files: Sequence[Path]
    first: int
    share: int = 0
    shares: int = 1

    def has(self, file: int, piece: int) -> bool:
        """Return whether a piece (a row group, a chunk) of ``files[file]`` belongs to this share."""
        # Shares of different files begin with different pieces, so that files of one piece each are spread too.
        return (self.first + file + piece) % self.shares == self.share


def file_partitions(files: Sequence[Path], parallelism: int) -> list[str]:
    """Name a partition per file (per run of neighbours if there are more than 256), in order of ``files``.

    If these are fewer than ``parallelism``, each is cut into shares, dealt out so that every instance gets some.
    """
    runs = [str(files[start]) for start in _starts(len(files))]
    if len(runs) >= parallelism:
        return runs
    even = len(runs) * parallelism <= MAX_FILE_PARTITIONS
    shares = parallelism if even else -(-parallelism // len(runs))
    return [f"{run} {share}/{shares}" for run in runs for share in range(shares)]


def file_partition(files: Sequence[Path], name: str) -> FilePartition:
    """Return the partition that `file_partitions` named."""
    starts = _starts(len(files))
    runs = {str(files[start]): number for number, start in enumerate(starts)}
    alone = name.removesuffix(_ALONE)
    if alone != name and name not in runs:
        places = [number for number, path in enumerate(files) if str(path) == alone]
        if places:
            return FilePartition([files[places[0]]], places[0])
    share, shares = 0, 1
    if name not in runs:
        name, _, part = name.rpartition(" ")
        share, shares = partition_number(part)
    if name not in runs:
        raise BugError(f"{name!r} is not the first file of a partition")
    number = runs[name]
    start, end = [*starts, len(files)][number : number + 2]
    return FilePartition(files[start:end], start, share, shares)


def new_file_partitions(files: Sequence[Path], known: Collection[str]) -> list[str]:
    """Name a partition per file that is not ``known``; among more than 256 files its name says that it is alone."""
    ending = "" if len(files) <= MAX_FILE_PARTITIONS else _ALONE
    return [f"{path}{ending}" for path in files if str(path) not in known]


def share_of(name: str, file: str) -> tuple[int, int]:
    """Return which share of ``file`` a partition's name means, and out of how many."""
    return (0, 1) if name == file else partition_number(name.removeprefix(file + " "))


def numbered(parallelism: int) -> list[str]:
    """Return one partition name per instance, such as ``0/2`` and ``1/2``."""
    return [f"{number}/{parallelism}" for number in range(parallelism)]


def partition_number(partition: str) -> tuple[int, int]:
    """Return which partition a name means, and out of how many."""
    number, _, count = partition.partition("/")
    if not (number.isdigit() and count.isdigit() and int(number) < int(count)):
        raise BugError(f"{partition!r} is not a partition name such as '0/2'")
    return int(number), int(count)


def _starts(files: int) -> list[int]:
    """Return where the runs of neighbouring files begin; they are of equal length, give or take one."""
    runs = min(files, MAX_FILE_PARTITIONS)
    return [number * files // runs for number in range(runs)]
