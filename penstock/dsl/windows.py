"""Windows as users write them: ``tumbling("10s")``, ``hopping("10s", "2s")``, ``session("30s")``..."""

from penstock.model.durations import Duration, to_microseconds
from penstock.model.option_literals import TimeBasis
from penstock.model.windows import Count, Global, Hopping, Session, Tumbling, Windowing


def tumbling(size: Duration, *, offset: Duration = 0, lateness: Duration = 0, clock: TimeBasis = "event") -> Windowing:
    """Windows of one size, side by side, aligned to the epoch plus ``offset``.

    ``lateness`` is how long after its end a window still takes rows. ``clock="processing"`` groups by arrival.
    """
    window = Tumbling(to_microseconds(size, "size"), to_microseconds(offset, "offset"))
    return Windowing(window, to_microseconds(lateness, "lateness"), clock)


def hopping(
    size: Duration, hop: Duration, *, offset: Duration = 0, lateness: Duration = 0, clock: TimeBasis = "event"
) -> Windowing:
    """Windows of one ``size`` that start every ``hop``; a row is in each window that covers it."""
    window = Hopping(to_microseconds(size, "size"), to_microseconds(hop, "hop"), to_microseconds(offset, "offset"))
    return Windowing(window, to_microseconds(lateness, "lateness"), clock)


def sliding(size: Duration, slide: Duration, *, lateness: Duration = 0) -> Windowing:
    """`hopping` by its other name."""
    return hopping(size, slide, lateness=lateness)


def session(gap: Duration, *, lateness: Duration = 0, clock: TimeBasis = "event") -> Windowing:
    """Windows that end after ``gap`` without rows; a row exactly one gap after the last still joins."""
    return Windowing(Session(to_microseconds(gap, "gap")), to_microseconds(lateness, "lateness"), clock)


def count_window(rows: int) -> Windowing:
    """Windows of a number of rows per key, in event-time order."""
    return Windowing(Count(rows))


def global_window() -> Windowing:
    """One window over everything; its result comes when the input ends."""
    return Windowing(Global())
