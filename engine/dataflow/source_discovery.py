"""Partitions that a source gets while a job reads it: which instance takes which. Asked by `SourceHead`.

Instances ask at different times and may see different lists, so a new partition belongs to whoever its name says.
"""

from collections.abc import Sequence
from zlib import crc32

from penstock.model.connectors import Source


class SourceDiscovery:
    """The view that one of ``parallelism`` source instances has of all partitions."""

    def __init__(self, source: Source, index: int, parallelism: int, partitions: Sequence[str]) -> None:
        """Begin with the partitions that were dealt out to all instances when they started."""
        self._source = source
        self._index, self._parallelism = index, parallelism
        self._listed = list(partitions)
        self._every_ns = (source.discovery_us or 0) * 1_000
        self.due_ns = 0
        """When to ask; at once, as an instance may have nothing to read."""

    def find(self, now_ns: int) -> list[str]:
        """Return new partitions that are this instance's, if it is time to ask; they come again until `opened`.

        Raises:
            RetryableError: the source cannot tell now.
        """
        if now_ns < self.due_ns:
            return []
        self.due_ns = now_ns + self._every_ns
        new = self._source.partitions_since(self._listed)
        mine = [name for name in new if crc32(name.encode()) % self._parallelism == self._index]
        self._listed += [name for name in new if name not in mine]
        return mine

    def redeal(self, index: int, parallelism: int, partitions: Sequence[str]) -> None:
        """Go on as one of other instances, which together have these partitions."""
        self._index, self._parallelism, self._listed = index, parallelism, list(partitions)

    def opened(self, partition: str) -> None:
        """Note that a partition is being read."""
        self._listed.append(partition)


def discovery_of(source: Source, index: int, parallelism: int, partitions: Sequence[str]) -> SourceDiscovery | None:
    """Return what watches for new partitions, None for a source that never has any."""
    if source.bounded or source.discovery_us is None:
        return None
    return SourceDiscovery(source, index, parallelism, partitions)
