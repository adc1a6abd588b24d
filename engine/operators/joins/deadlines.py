"""Numbers with deadlines, in a few sorted runs that are merged as they grow. Called by `interval_rows`."""

import numpy as np

from penstock.state.keys.arrays import Ints


class Deadlines:
    """Numbers by the time at which they are due; adding and taking cost a logarithm per number, whatever else waits."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._runs: list[tuple[Ints, Ints]] = []

    def add(self, times_us: Ints, numbers: Ints) -> None:
        """Keep numbers[i] until times_us[i] has been passed."""
        if not numbers.size:
            return
        self._runs.append(_sorted(times_us, numbers))
        while len(self._runs) > 1 and 2 * self._runs[-1][0].size > self._runs[-2][0].size:
            newer, older = self._runs.pop(), self._runs.pop()
            self._runs.append(_sorted(*(np.concatenate(pair) for pair in zip(older, newer, strict=True))))

    def first(self) -> int | None:
        """Return the earliest time at which a number is due, or None."""
        return min((int(times_us[0]) for times_us, _ in self._runs), default=None)

    def take(self, before_us: int) -> Ints:
        """Return the numbers due before a time, in order of time, and forget them."""
        due, left = [], []
        for times_us, numbers in self._runs:
            cut = int(np.searchsorted(times_us, before_us))
            if cut:
                due.append((times_us[:cut], numbers[:cut]))
            if cut < times_us.size:
                left.append((times_us[cut:], numbers[cut:]))
        self._runs = left
        if len(due) < 2:
            return due[0][1] if due else np.empty(0, np.int64)
        return _sorted(*(np.concatenate(column) for column in zip(*due, strict=True)))[1]


def _sorted(times_us: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    if bool((times_us[1:] >= times_us[:-1]).all()):
        return times_us, numbers
    order = np.argsort(times_us, kind="stable")
    return times_us[order], numbers[order]
