"""What a change of instances waits for, in the order in which it goes on. Used by `managed_growth`."""

from enum import Enum


class ChangeStep(Enum):
    """What a change waits for."""

    QUIET = "no move and no checkpoint is under way"
    SINKS = "sinks are ready for more writers"
    BUILT = "new instances are built"
    JOINED = "producers send to them"
    DEALT = "partitions have changed their instances"
    MOVED = "key groups have moved"
    LEFT = "instances that go have ended"
    SAVED = "a checkpoint has what those brought forth that have left"
