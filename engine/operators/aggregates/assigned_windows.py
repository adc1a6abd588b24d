"""Windows as lists of (row, window) pairs: for custom assigners, and wherever a result is kept per window.

State is kept under the window's end, so that a watermark finds the windows it closes.
"""

from dataclasses import dataclass

import numpy as np

from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.kernels.panes import expand_windows
from penstock.model.errors import UserError
from penstock.model.windows import Hopping, Tumbling, WindowAssigner
from penstock.state.keys.arrays import Ints, Mask, read_only


@dataclass(frozen=True, slots=True)
class Assigned:
    """The rows of a batch in their windows that are not over yet.

    ``rows[i]`` (ascending, may repeat; None: every row once) is in the window that ends at ``ends_us[i]`` and, where
    windows of one end differ in size, starts at ``starts_us[i]``. ``late`` marks the rows whose windows are all over,
    ``outside`` those that never had any; each is None where there are none.
    """

    rows: Ints | None
    ends_us: Ints
    starts_us: Ints | None = None
    late: Mask | None = None
    outside: Mask | None = None


class AssignedWindows:
    """Puts rows into tumbling, hopping or custom windows."""

    def __init__(self, window: Tumbling | Hopping | WindowAssigner, lateness_us: int, operator: str) -> None:
        """Take the window and how long after its end it stays open."""
        self._window = window
        self._lateness_us = lateness_us
        self._operator = operator

    @property
    def keeps_starts(self) -> bool:
        """True if a window is known by its start and end, not by its end alone."""
        return isinstance(self._window, WindowAssigner)

    def over_until_us(self, watermark_us: int) -> int:
        """Return the greatest end of a window that is over at this watermark."""
        return max(watermark_us - self._lateness_us, START_OF_TIME_US)

    def over_at_us(self, end_us: int) -> int:
        """Return the watermark at which a window with this end is over."""
        return end_us + self._lateness_us

    def starts_us(self, ends_us: Ints) -> Ints:
        """Return where windows with these ends begin (unless `keeps_starts`)."""
        assert not isinstance(self._window, WindowAssigner)
        return ends_us - self._window.size_us

    def assign(self, times_us: Ints, over_until_us: int) -> Assigned:
        """Put rows into those of their windows that end after ``over_until_us``.

        Raises:
            UserError: a custom assigner broke its contract.
        """
        if isinstance(self._window, WindowAssigner):
            return self._assign_custom(self._window, times_us, over_until_us)
        size_us = self._window.size_us
        hop_us = size_us if isinstance(self._window, Tumbling) else self._window.hop_us
        most = -(-size_us // hop_us) * len(times_us)
        rows, ends_us = np.empty(most, np.int64), np.empty(most, np.int64)
        late = np.empty(len(times_us), np.bool_)
        offset_us = self._window.offset_us
        pairs = expand_windows(read_only(times_us), size_us, hop_us, offset_us, over_until_us, rows, ends_us, late)
        if pairs == most == len(times_us):
            return Assigned(None, ends_us)
        return Assigned(rows[:pairs], ends_us[:pairs], late=late if late.any() else None)

    def _assign_custom(self, assigner: WindowAssigner, times_us: Ints, over_until_us: int) -> Assigned:
        rows, starts_us, ends_us = (np.asarray(part, np.int64) for part in assigner.assign(read_only(times_us)))
        if not rows.shape == starts_us.shape == ends_us.shape:
            raise self._broken("must return three arrays of one length")
        if rows.size and (rows[0] < 0 or rows[-1] >= len(times_us) or (np.diff(rows) < 0).any()):
            raise self._broken("must return ascending positions of rows of the batch")
        times = times_us[rows]
        wrong = np.flatnonzero((times < starts_us) | (times >= ends_us))
        if wrong.size:
            at = wrong[0]
            raise self._broken(
                f"put a row of time {times[at]} into the window [{starts_us[at]}, {ends_us[at]}), "
                "which does not contain it"
            )
        assigned = np.zeros(len(times_us), np.bool_)
        assigned[rows] = True
        open_ = ends_us > over_until_us
        kept = np.zeros(len(times_us), np.bool_)
        kept[rows[open_]] = True
        late, outside = assigned & ~kept, ~assigned
        return Assigned(
            rows[open_],
            ends_us[open_],
            starts_us[open_],
            late if late.any() else None,
            outside if outside.any() else None,
        )

    def _broken(self, what: str) -> UserError:
        return UserError(f"{type(self._window).__name__}.assign, used by {self._operator!r}, {what}")
