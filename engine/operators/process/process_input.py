"""The input of a process function at a time: rows in order, the timers among them, and the distinct keys of both."""

from dataclasses import dataclass, field

import pyarrow as pa

from penstock.engine.core.elements import START_OF_TIME_US
from penstock.model.errors import BugError, FatalError
from penstock.state.keys.arrays import Ints
from penstock.state.keys.batch_keys import KeyBatch

NOT_THE_ROWS = (BugError, FatalError)
"""What a call may raise, through the state it reads, that is no error of its rows."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Rows that are to become dead letters, for one reason: of the piece's rows, or of the timers' keys and times."""

    rows: pa.RecordBatch
    text: str
    of_timers: bool


@dataclass(slots=True)
class ProcessInput:
    """Rows and due timers.

    ``rows`` come in event-time order, or as they arrived (``by_arrival``); ``times_us`` are their event times (None:
    there is no event time), ``groups`` the number of each one's key among ``keys`` and ``key_columns``. Due timers,
    in order of time, are ``due_us`` and ``due_groups``; with ``processing`` they are of processing time and there are
    no rows. Timers in event time up to ``bound_us`` fire in this piece.
    """

    rows: pa.RecordBatch
    times_us: Ints | None
    groups: Ints
    keys: KeyBatch
    key_columns: list[pa.Array]
    due_us: Ints
    due_groups: Ints
    bound_us: int
    by_arrival: bool
    processing: bool
    failures: list[Failure] = field(default_factory=list)


@dataclass(slots=True)
class TimeProgress:
    """The progress of time that functions may read: by watermark and by clock."""

    watermark_us: int = START_OF_TIME_US
    clock_us: int = 0
