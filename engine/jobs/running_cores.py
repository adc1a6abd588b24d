"""The CPU that all task managers of a job may use, which changes while it runs: kept over all attempts of a run.

It is shared out by what each of them uses, as their work differs: where each had as much, one would rest while another
has cores to spare.
"""

from collections.abc import Collection, Mapping

EVEN = 0.1
"""The part of the cores that is shared out evenly, so that one that had little to do can begin to use more."""

NEWEST = 0.3
"""The weight of the newest reading of what a task manager uses."""

CHANGED = 0.02
"""Shares stay while none is to change by more than this part of an even one."""


class RunningCores:
    """The cores of one run. Who steers the job writes them, who tells task managers reads them: one thread."""

    def __init__(self) -> None:
        """Begin without a bound: a core for each task manager, as its loop is one thread."""
        self.wanted: float | None = None
        """The cores of all task managers together; None: no bound."""
        self._heard: dict[str, tuple[int, int]] = {}
        self._used: dict[str, float] = {}
        self._shared: float | None = None
        self._shares: dict[str, float] = {}

    def hear(self, manager: str, cpu_ns: int, time_ns: int) -> None:
        """Take in the CPU that a task manager has used since it began, until a moment of its own clock."""
        before_ns, began_ns = self._heard.get(manager, (cpu_ns, time_ns))
        self._heard[manager] = cpu_ns, time_ns
        if time_ns > began_ns and cpu_ns >= before_ns:
            used = (cpu_ns - before_ns) / (time_ns - began_ns)
            self._used[manager] = used + (1 - NEWEST) * (self._used.get(manager, used) - used)

    def shares(self, managers: Collection[str]) -> Mapping[str, float]:
        """Return the cores that each of these task managers may use, all together those wanted; empty: no bound."""
        if self.wanted is None or not managers:
            return {}
        self._used = {name: used for name, used in self._used.items() if name in managers}
        even = self.wanted / len(managers)
        shares = dict.fromkeys(managers, even)
        if len(self._used) == len(managers):
            shares = core_shares(self.wanted, self._used)
        if (
            self._shared != self.wanted
            or self._shares.keys() != shares.keys()
            or any(abs(share - self._shares[name]) > CHANGED * even for name, share in shares.items())
        ):
            self._shared, self._shares = self.wanted, shares
        return self._shares

    def held(self, managers: int) -> float:
        """Return the cores that the job has with so many task managers."""
        return float(managers) if self.wanted is None else min(self.wanted, float(managers))


def core_shares(cores: float, used: Mapping[str, float]) -> dict[str, float]:
    """Return the cores c_i of each task manager, by name: c_i = (1 - e) (k u_i + r) + e C / n.

    C, n  ``cores`` of all, > 0, and the number of task managers, >= 1
    u_i   cores that each uses now, >= 0
    k     1, or C / sum u_i where they use more than they may
    r     (C - k sum u_i) / n: what nobody uses, in equal parts
    e     the part that is shared out evenly (`EVEN`)
    All together are C. One that rests as its share is used up gets more each time, as long as others have some left.
    """
    total, even = sum(used.values()), cores / len(used)
    scale = min(1.0, cores / total) if total > 0 else 0.0
    room = (cores - scale * total) / len(used)
    return {name: (1 - EVEN) * (scale * use + room) + EVEN * even for name, use in used.items()}
