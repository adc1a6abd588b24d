"""Notices of the checkpoint that a job resumes from: its age, the position of each source, the progress of time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import PurePath

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.restore.source_positions import PartitionPosition, read_positions
from penstock.engine.restore.state_assignment import RestoredState

SHOWN_PLACES = 3
"""So many places of a source are named; more are counted."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def restored_text(job: str, restored: RestoredState, wall_us: int) -> str:
    """Return the line that a job begins with."""
    manifest = restored.manifest
    what = f"checkpoint {manifest.epoch}" if restored.savepoint is None else f"savepoint {restored.savepoint!r}"
    age = age_text(wall_us - manifest.created_us)
    parts = [f"RESTORED: {job!r} goes on from {what} of {time_text(manifest.created_us)}, {age} ago"]
    positions = {
        entry.operator: read_positions(entry.operator, list(entry.positions), entry.positions)
        for entry in manifest.sources
    }
    parts += [f"{source} {where_text(marks)}" for source, marks in positions.items()]
    times_us = [item.watermark_us for marks in positions.values() for item in marks.values() if not item.ended]
    watermark_us = min(times_us, default=END_OF_TIME_US)
    if watermark_us not in (START_OF_TIME_US, END_OF_TIME_US):
        behind_us = wall_us - watermark_us
        relative = f"{age_text(behind_us)} behind" if behind_us >= 0 else f"{age_text(-behind_us)} ahead of"
        parts.append(f"watermark {time_text(watermark_us)}, {relative} the clock")
    return "; ".join(parts)


def time_text(time_us: int) -> str:
    """Return a time to the second; beyond what dates can say, the microseconds."""
    try:
        return f"{_EPOCH + timedelta(microseconds=time_us):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{time_us} us"


def age_text(age_us: int) -> str:
    """Return a duration in its largest unit of which there are two."""
    seconds = max(0, age_us // 1_000_000)
    for unit, length in (("days", 86_400), ("hours", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:,} {unit}"
    return f"{seconds} s"


def where_text(positions: dict[str, PartitionPosition]) -> str:
    """Return where a source goes on: rows that were read, then offsets or files."""
    count = sum(item.rows for item in positions.values())
    rows = f"{count:,} row{'' if count == 1 else 's'} read"
    if positions and all(item.ended for item in positions.values()):
        return f"at its end, {rows}"
    places = list(_places(positions))
    shown = ", ".join(places[:SHOWN_PLACES])
    more = f" and {len(places) - SHOWN_PLACES} more" if len(places) > SHOWN_PLACES else ""
    return f"at {shown}{more}, {rows}" if places else rows


def _places(positions: dict[str, PartitionPosition]) -> Iterator[str]:
    for name, item in positions.items():
        match item.at:
            case {"offset": int(offset)}:
                yield f"{name}@{offset}"
            case {"mark": {"file": str(file)}} if not item.ended:
                yield PurePath(file).name
