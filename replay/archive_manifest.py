"""The manifest of a topic's archive: ranges of offsets and the files with their messages. Pure, but for JSON.

The manifest is one small file that is replaced whole, so that a run of `archive` counts entirely or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from penstock.model.errors import UserError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A Parquet file by its path in the archive; ``first`` and ``last`` are the offsets of messages in it."""

    path: str
    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ArchivedRange:
    """All that a partition had from offset ``start`` up to, not including, ``stop``; there may be no message."""

    partition: int
    start: int
    stop: int
    files: tuple[ArchivedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """An archive of one topic after ``runs`` runs. Ranges of a partition ascend and are apart."""

    topic: str
    topic_id: str | None
    runs: int
    ranges: tuple[ArchivedRange, ...]

    def ends(self) -> dict[int, int]:
        """Return where each partition goes on."""
        return {item.partition: item.stop for item in self.ranges}

    def kept(self) -> dict[tuple[str, int], list[tuple[int, int]]]:
        """Return what there is by partition, as (start, stop) ascending and apart; what adjoins is one."""
        ranges: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for item in self.ranges:
            merged = ranges.setdefault((self.topic, item.partition), [])
            if merged and merged[-1][1] == item.start:
                merged[-1] = (merged[-1][0], item.stop)
            else:
                merged.append((item.start, item.stop))
        return ranges

    def files(self, partition: int, start: int, stop: int) -> list[str]:
        """Return the files that have messages of a partition from an offset up to, not including, another."""
        ranges = [item for item in self.ranges if item.partition == partition]
        return [file.path for item in ranges for file in item.files if file.first < stop and start <= file.last]

    def with_run(self, topic_id: str | None, ranges: Sequence[ArchivedRange]) -> ArchiveManifest:
        """Return the manifest after one more run."""
        return ArchiveManifest(self.topic, topic_id, self.runs + 1, (*self.ranges, *ranges))

    def to_json(self) -> bytes:
        """Return the file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")).encode()


def empty(topic: str) -> ArchiveManifest:
    """Return the manifest of an archive that has nothing."""
    return ArchiveManifest(topic, None, 0, ())


def parse(content: bytes, where: str) -> ArchiveManifest:
    """Read a manifest.

    Raises:
        UserError: it is none, or of a later version.
    """
    try:
        fields: Mapping[str, Any] = json.loads(content)
        if fields["format"] != FORMAT:
            raise UserError(
                f"{where} is of format {fields['format']}, but this version reads {FORMAT}: use a newer one"
            )
        return msgspec.convert(fields, ArchiveManifest)
    except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise UserError(f"{where} is no manifest of an archive ({type(error).__name__}: {error})") from None
