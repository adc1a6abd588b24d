"""Partitions that one instance of a source gives to another, between two reads (docs/design/moves.md 9)."""

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
from msgspec import structs

from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.dataflow.source_partition import Partition
from penstock.engine.dataflow.source_watermark import SourceWatermark
from penstock.engine.restore.source_positions import PartitionPosition


class GivenPartition(msgspec.Struct, frozen=True):
    """A partition on its way: what a checkpoint keeps of it, and what its reader's instance knew besides.

    ``is_closed``: no row of it may come, as a run before closed what is behind the source.
    """

    position: PartitionPosition
    is_live: bool
    is_idle: bool
    is_closed: bool


class HeldSource(msgspec.Struct, frozen=True):
    """The partitions of one source instance while they are held, those that have ended apart, and its watermark.

    ``is_idle``: it has said so, and its watermark holds nobody. ``has_ended``: it reads and takes nothing more.
    """

    instance: str
    live: tuple[str, ...]
    ended: tuple[str, ...]
    watermark_us: int
    is_idle: bool
    has_ended: bool


class PartitionHandover:
    """What one source instance gives and takes; `SourceHead` reads on meanwhile, but what is stopped.

    While it is held its watermark stays, no partition is looked for, and the stream does not end.
    """

    def __init__(
        self,
        partitions: list[Partition],
        watermark: SourceWatermark,
        opens: Callable[[str, PartitionPosition], Partition],
        position: Callable[[Partition], PartitionPosition],
        *,
        is_held: bool,
    ) -> None:
        """Begin with the ``partitions`` of the head, which change in place."""
        self._partitions, self._watermark = partitions, watermark
        self._opens, self._position = opens, position
        self.is_held = watermark.is_held = is_held
        self._leaving: frozenset[str] = frozenset()
        self._above_us = START_OF_TIME_US

    def hold(self, instance: str, *, has_ended: bool) -> HeldSource:
        """Let the watermark stay where it is; return what is here."""
        self.is_held = self._watermark.is_held = True
        return HeldSource(
            instance,
            tuple(item.name for item in self._partitions if not item.ended),
            tuple(item.name for item in self._partitions if item.ended),
            self._watermark.time_us,
            self._watermark.is_idle,
            has_ended,
        )

    def stop(self, names: Collection[str], above_us: int, least_us: int | None) -> None:
        """Let these partitions be read until they are past the watermark ``above_us``, and then no further.

        An instance that is idle says ``least_us`` (None: it takes nothing), if it is not past that: receivers wait for
        it then, whatever those say whose partitions it takes.
        """
        self._leaving, self._above_us = frozenset(names), above_us
        if least_us is not None:
            self._watermark.stand(least_us)

    def has_stopped(self, *, reads: bool) -> bool:
        """Return whether nothing is read any more of what goes; all that was is in the gathered rows, or has left.

        Unless it ``reads``, nothing is.
        """
        leaving = [item for item in self._partitions if item.name in self._leaving]
        for item in leaving:
            item.stopped = item.stopped or not reads or self._watermark.is_past(item, self._above_us)
        return all(item.stopped for item in leaving)

    def give(self, *, is_closed: bool) -> dict[str, GivenPartition]:
        """Let go of what has stopped; the rows of it have left."""
        given = {}
        for item in [item for item in self._partitions if item.name in self._leaving]:
            position = self._position(item)
            position = structs.replace(position, at=msgspec.to_builtins(position.at))
            given[item.name] = GivenPartition(position, item.is_live, item.idle, is_closed)
            self._partitions.remove(item)
            item.reader.close()
        self._leaving = frozenset()
        return given

    def take(self, given: Mapping[str, GivenPartition]) -> None:
        """Read these on, too.

        Raises:
            UserError: what was read is no longer there, or no longer the same.
            RetryableError: nobody answers.
        """
        for name, each in given.items():
            item = self._opens(name, each.position)
            item.began_us, item.is_live, item.idle = item.latest_us, each.is_live, each.is_idle
            self._partitions.append(item)

    def resume(self, said_us: Iterable[int] = ()) -> None:
        """Go on with the partitions that are here; who has said no watermark yet begins with the least of these."""
        self.is_held = self._watermark.is_held = False
        self._watermark.go_on(self._partitions, min(said_us, default=START_OF_TIME_US))
