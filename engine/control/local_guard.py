"""The guard over the sources of one process: between two cycles it lowers their keep rates (`shedding.guard`).

The shell of an embedded job has one, and so has each task manager.
"""

from collections.abc import Sequence
from dataclasses import replace

from penstock.engine.control.job_control import KeepOrder
from penstock.engine.dataflow.build import Build
from penstock.model.keep_rates import KeepRates
from penstock.shedding.guard import GuardMemory, GuardRule, SourceInput, capped, decided, looked
from penstock.shedding.keep_settings import ShedderQueries

GUARD_NS = 250_000_000
"""How often the guard looks."""


class LocalGuard:
    """The keep rates in force in a process: those of the controller, lower where the guard found input behind."""

    def __init__(self) -> None:
        """Begin with nothing shed, and look on until the controller has decided once."""
        self._rule = GuardRule()
        self._memory = GuardMemory()
        self._shedders: ShedderQueries | None = None
        self._exempt = frozenset[str]()
        self._busy: tuple[int, float] | None = None
        self._said: KeepRates | None = None
        self.rates = KeepRates()
        """The rates in force."""

    def decided(self, order: KeepOrder) -> None:
        """Take the controller's rates, and the minimums that none is below."""
        self._shedders, self._exempt = order.shedders, order.exempt
        self._memory = decided(self._rule, self._memory, order.shedders, order.rates, order.exempt)
        self.rates = capped(order.shedders, self._memory)

    def set_rates(self, rates: KeepRates) -> None:
        """Take rates that somebody has set without a decision; what was lowered stays so."""
        self._memory = replace(self._memory, wanted=rates)
        self.rates = rates if self._shedders is None else capped(self._shedders, self._memory)

    def look(self, builds: Sequence[Build], now_ns: int) -> None:
        """Look at the sources here, and lower the rates of those that fall behind because the loop is full."""
        instances = [instance for build in builds for instance in build.instances]
        busy_ns = float(sum(instance.accounting.spent(now_ns).busy_ns for instance in instances))
        before, self._busy = self._busy, (now_ns, busy_ns)
        if self._shedders is None or before is None or now_ns <= before[0]:
            return
        worked = max(0.0, min(1.0, (busy_ns - before[1]) / (now_ns - before[0])))
        inputs = {name: read for name, read in _inputs(builds).items() if name not in self._exempt}
        self._memory = looked(self._rule, self._memory, self._shedders, now_ns / 1e9, worked, inputs)
        self.rates = capped(self._shedders, self._memory)

    def changed(self) -> KeepRates | None:
        """Return the rates if they are others than at the last call, once the controller has decided."""
        if self._shedders is None or self.rates == self._said:
            return None
        self._said = self.rates
        return self.rates


def _inputs(builds: Sequence[Build]) -> dict[str, SourceInput]:
    """Return the input of each source here whose readers know what waits in all of their partitions."""
    inputs: dict[str, SourceInput] = {}
    unknown = set[str]()
    for head in (head for build in builds for head in build.heads()):
        for _, taken, behind, _ in head.logs():
            if behind is None:
                unknown.add(head.name)
                continue
            before = inputs.get(head.name, SourceInput(0.0, 0.0))
            inputs[head.name] = SourceInput(before.offered + taken + behind, before.consumed + taken)
    return {name: read for name, read in inputs.items() if name not in unknown}
