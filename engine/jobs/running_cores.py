"""The CPU that all task managers of a job may use, which changes while it runs: kept over all attempts of a run.

It is shared out by what each of them uses, as their work differs: with equal shares one would rest while another has
cores to spare.
"""

from collections.abc import Collection, Mapping

import numpy as np

from penstock.model.columns import Floats

LOOP = 1.0
"""The cores that a task manager can use: its loop is one thread."""

FLOOR = 0.1
"""The part of an even share that each has in any case."""

FREE = 0.1
"""The part of what is used that is shared out anew each time at least."""

HARDLY = 0.01
"""Who rests for no more than this part of the time has about what it needs."""

NEWEST = 0.3
"""The weight of the newest reading of what a task manager uses."""

DIGITS = 3
"""Shares are thousandths of a core."""


class RunningCores:
    """The cores of one run. Who steers the job writes them, who tells task managers reads them: one thread."""

    def __init__(self) -> None:
        """Begin without a bound: a core for each task manager, as its loop is one thread."""
        self.wanted: float | None = None
        """The cores of all task managers together; None: no bound."""
        self._heard: dict[str, tuple[int, int, int]] = {}
        self._used: dict[str, tuple[float, float]] = {}
        self._of: tuple[float | None, frozenset[str]] = (None, frozenset())
        self._news: set[str] = set()
        self._shares: Mapping[str, float] = {}

    def hear(self, manager: str, cpu_ns: int, throttled_ns: int, time_ns: int) -> None:
        """Take in the CPU that a task manager has used since it began, and how long its loop has rested.

        All are ns until a moment of its own clock. What one used before it hosted anything does not count: it loads.
        """
        before = self._heard.get(manager, (cpu_ns, throttled_ns, time_ns))
        self._heard[manager] = cpu_ns, throttled_ns, time_ns
        length_ns = time_ns - before[2]
        if manager not in self._used or length_ns <= 0 or cpu_ns < before[0] or throttled_ns < before[1]:
            return
        used, rested = self._used[manager]
        used += NEWEST * ((cpu_ns - before[0]) / length_ns - used)
        rested += NEWEST * (min(1.0, (throttled_ns - before[1]) / length_ns) - rested)
        self._used[manager] = used, rested
        self._news.add(manager)

    def shares(self, hosting: Collection[str]) -> Mapping[str, float]:
        """Return the cores of each task manager that hosts instances, which add up to those wanted; empty: no bound.

        They change once all have been heard of since, and when others host instances or other cores are wanted.
        """
        if self.wanted is None or not hosting:
            return {}
        now = self.wanted, frozenset(hosting)
        if now == self._of and not self._news >= now[1]:
            return self._shares
        even = self.wanted / len(now[1])
        # Of one that is new nothing is known: it is taken to use an even share.
        self._used = {name: self._used.get(name, (even, 0.0)) for name in sorted(hosting)}
        self._heard = {name: heard for name, heard in self._heard.items() if name in now[1]}
        self._of, self._news = now, set()
        used, rested = np.array([*self._used.values()]).T
        self._shares = dict(zip(self._used, core_shares(self.wanted, used, rested).round(DIGITS).tolist(), strict=True))
        return self._shares

    def held(self, managers: int) -> float:
        """Return the cores that the job has with so many task managers."""
        return float(managers) if self.wanted is None else min(self.wanted, float(managers))


def core_shares(cores: float, used: Floats, rested: Floats) -> Floats:
    """Return the cores of each of n task managers: c_i = f + (1 - d) k u_i + w_i (C - n f - (1 - d) k sum u_i).

    C    ``cores`` of all, > 0; where each may have a whole one (`LOOP`), C / n is its share
    f    what each has in any case, `FLOOR` of C / n
    u_i  ``used``: cores that it uses beyond f, >= 0
    k    1, or (C - n f) / sum u_i where they use more than that
    d    the part of what is used that goes to who rests more: `FREE`, or the time that all rest, if that is more
    w_i  its part of what is free, as the part of the time that it ``rested``, in [0, 1], and `HARDLY`
    What is more than `LOOP` goes to the others. All together are C.
    """
    count = len(used)
    even = cores / count
    if even >= LOOP:
        return np.full(count, even)
    floor = FLOOR * even
    above, left = np.maximum(used - floor, 0.0), cores - count * floor
    total, free = float(above.sum()), max(FREE, float(rested.min()))
    kept = (1 - free) * (min(1.0, left / total) if total > 0 else 0.0) * above
    weight = (rested + HARDLY) / (rested + HARDLY).sum()
    shares = np.asarray(floor + kept + weight * (left - kept.sum()), np.float64)
    while (over := float(np.maximum(shares - LOOP, 0.0).sum())) > 1e-9:
        shares = np.minimum(shares, LOOP)
        room = LOOP - shares
        shares = shares + over * room / room.sum()
    return shares
