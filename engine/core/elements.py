"""Elements of channels: batches of rows and the control elements between them, in order."""

from dataclasses import dataclass
from operator import add

import pyarrow as pa

from penstock.model.ids import TaskId

END_OF_TIME_US = (1 << 63) - 1
"""The watermark of an input that has ended."""

START_OF_TIME_US = -(1 << 63)
"""The watermark before anything is known."""

Sic = tuple[float, ...]
"""Source information content by the number of its query, and behind that, likewise, what of it was dropped; all >= 0.

Empty: of none.
"""


NO_ROWS = pa.RecordBatch.from_arrays([], names=[])
"""The rows of a batch that brings SIC alone."""


def sum_of_sic(one: Sic, other: Sic) -> Sic:
    """Return the SIC of two batches together."""
    return tuple(map(add, one, other)) if one and other else one or other


def part_of_sic(sic: Sic, rows: int, of: int) -> Sic:
    """Return the share of so many rows of a batch of ``of`` rows, which is not empty."""
    return sic if rows == of else tuple(each * rows / of for each in sic)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows and their header.

    ``keep`` is the product of the keep probabilities on the rows' path, in (0, 1]; 1.0 means nothing was shed.
    ``ingest_ns`` is the monotonic time at which the source handed the oldest of the rows over. ``opposite_us`` is set
    where streams meet: what has come on the other ports before these rows leaves no older row to come there.
    ``branches`` is empty unless branches behind the source shed further: then it has, of each branch by its number, the
    steps of the records that go on, and the last column of the rows is `STEP`. ``keys`` is empty unless samplers of
    keys behind the source shed: then it has, of each sampler by its number, the steps of the keys that go on. ``sic``
    is empty unless source information content is counted: then it has that of the rows together, by query (THEMIS). A
    batch without rows brings nothing else.
    """

    rows: pa.RecordBatch
    keep: float = 1.0
    ingest_ns: int = 0
    opposite_us: int = START_OF_TIME_US
    branches: bytes = b""
    keys: bytes = b""
    sic: Sic = ()

    def with_rows(self, rows: pa.RecordBatch) -> "Batch":
        """Return the same header over other rows."""
        return Batch(rows, self.keep, self.ingest_ns, self.opposite_us, self.branches, self.keys, self.sic)


@dataclass(frozen=True, slots=True)
class Watermark:
    """No more rows with event time < ``time_us`` will follow on this channel."""

    time_us: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Cuts the stream between checkpoint ``epoch`` and the next."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Idle:
    """This channel's source was asked and had nothing for its idle timeout: leave it out of the watermark."""


@dataclass(frozen=True, slots=True)
class CancelBarrier:
    """The barrier of ``epoch`` will not come on this channel, nor one of an earlier epoch: nobody is to wait for it."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Reroute:
    """The marker of a move: from here on key groups belong to other instances of the receiving task.

    ``task`` is the first of those that move together. ``groups`` has of each key group that moves its number, the
    instance that gives it and the one that takes it.
    """

    move: int
    task: TaskId
    groups: tuple[tuple[int, int, int], ...]

    def concerns(self, instance: int | None) -> bool:
        """Return whether an instance of this number gives or takes; None: one that may."""
        return instance is None or any(instance in (giver, taker) for _, giver, taker in self.groups)


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """Nothing follows on this channel.

    ``drained`` is False when the job was stopped before its input ended: open windows stay open.
    """

    drained: bool = True


@dataclass(frozen=True, slots=True)
class Left:
    """The sending instance is no more, and the others of its task go on: leave this channel out.

    With ``dismissed`` the receiver is to go, too: it ends once all its channels have said so or have ended.
    """

    dismissed: bool = False


Element = Batch | Watermark | Barrier | CancelBarrier | Idle | Reroute | EndOfStream | Left
