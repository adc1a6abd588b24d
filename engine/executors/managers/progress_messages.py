"""Messages of how far sources are in event time, which go both ways between the head and its task managers."""

import msgspec

from penstock.engine.executors.managers.adoption_messages import Message


class RegionProgress(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The least progress in event time, in microseconds, of some sources of a region in one of its attempts.

    ``region`` is the number of its first task (`region_id`); the end of time: none of them holds others.
    """

    region: int
    attempt: int
    least_us: int


class Progress(Message, frozen=True):
    """The progress of sources in event time (down: of all others), of regions in which it has changed since."""

    regions: tuple[RegionProgress, ...]
