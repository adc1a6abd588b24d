"""The distance that sources came in event time of late, and so where they are before they are heard again.

Kept by `SourceAlignment`, pure.
"""

from collections import deque

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US

WINDOW_NS = 250_000_000
"""The time over which it is measured: more than a report is old when it arrives."""


class Headway:
    """The way of a progress in event time over the last `WINDOW_NS` in which it moved.

    It counts from the last move and not from now, so that one that stands still for a moment, in the middle of a long
    step, is expected to go on.
    """

    def __init__(self) -> None:
        """Begin with nothing known."""
        # When it was where, ascending in both; the first is the last that is a window older than the last.
        self._moves: deque[tuple[int, int]] = deque()

    @property
    def covered_us(self) -> int:
        """The way, 0 or more; that since it began if that is less than a window ago."""
        return self._moves[-1][1] - self._moves[0][1] if self._moves else 0

    @property
    def is_whole(self) -> bool:
        """Whether it was followed for a whole window."""
        return bool(self._moves) and self._moves[-1][0] - self._moves[0][0] >= WINDOW_NS

    def follow(self, progress_us: int, now_ns: int) -> None:
        """Take in where it is; who goes back, ends, or has not begun is followed anew."""
        moves = self._moves
        if progress_us in (START_OF_TIME_US, END_OF_TIME_US):
            moves.clear()
            return
        if moves and progress_us < moves[-1][1]:
            moves.clear()
        if moves and progress_us == moves[-1][1]:
            return
        moves.append((now_ns, progress_us))
        while len(moves) > 1 and moves[1][0] <= now_ns - WINDOW_NS:
            moves.popleft()
