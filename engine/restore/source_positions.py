"""The position of a source's partition after a restore, in event time too. Made and taken back by `SourceHead`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from penstock.engine.core.elements import START_OF_TIME_US
from penstock.model.connectors import ENDED, Read, Reader, Source
from penstock.model.errors import FatalError


class PartitionPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One partition at the cut; ``at`` is the reader's own position.

    ``latest_us`` is the greatest event time seen, ``watermark_us`` the merged watermark of the source instance that
    had the partition, ``rows`` counts rows read. An ``ended`` partition is not opened again.
    """

    at: Any
    latest_us: int = START_OF_TIME_US
    watermark_us: int = START_OF_TIME_US
    ended: bool = False
    rows: int = 0


class EndedReader(Reader):
    """Stands for a partition that had ended before the restore: its files may be gone."""

    def __init__(self, position: Any) -> None:
        """Keep the position where it ended."""
        self._position = position

    def read(self, max_rows: int) -> Read:
        """Say again that it has ended."""
        return ENDED

    def position(self) -> Any:
        """Return where it ended."""
        return self._position


def read_positions(
    source: str, partitions: Sequence[str], positions: Mapping[str, Any] | None
) -> dict[str, PartitionPosition]:
    """Return what ``positions`` of `SourceHead.positions` says about some partitions; others begin at their beginning.

    Raises:
        FatalError: it is not what a source named ``source`` keeps.
    """
    raw = {name: positions[name] for name in partitions if name in positions} if positions else {}
    try:
        return msgspec.convert(raw, dict[str, PartitionPosition])
    except msgspec.ValidationError as error:
        raise FatalError(
            f"the checkpoint's positions of source {source!r} are not positions ({error}): restore an earlier one"
        ) from None


def merged_us(positions: Iterable[PartitionPosition]) -> int:
    """Return the watermark that an instance goes on with: what all former instances of its partitions had said.

    It holds for partitions that came since, too: they cannot take it back.
    """
    return min((item.watermark_us for item in positions), default=START_OF_TIME_US)


def closed_before(source: str) -> str:
    """Return why rows of a source cannot be taken in, and what to do."""
    return (
        f"source {source!r} has new rows, but the run before closed all windows when its input ended, so they would be "
        "late: let every run begin with a fresh watermark (at_end='close', --at-end close; windows that were closed "
        "get a second result if rows come for them), or start anew, without the checkpoint (restore='none'), and let "
        "runs keep their windows open (at_end='keep')"
    )


def restored_partitions(source: Source, parallelism: int, positions: Mapping[str, Any]) -> list[str]:
    """Return the partitions to deal out: those that the job began with, at whatever parallelism, and those come since.

    ``positions`` are those of all instances, empty at a first start.
    """
    if not positions:
        return list(source.partitions(parallelism))
    # Whether they are positions at all, those who open the partitions check.
    at = {name: position.get("at") for name, position in positions.items() if isinstance(position, Mapping)}
    return [*positions, *source.partitions_after(at)]
