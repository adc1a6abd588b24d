"""What queries need that want certain errors, from cycle to cycle, and what of that fits. One thread calls it."""

from collections.abc import Callable, Mapping
from functools import partial

from penstock.engine.control.shedding_scope import SheddingScope
from penstock.model.keep_rates import KeepRates
from penstock.shedding.error_control import ErrorMemory, ErrorRule, error_at, learned, need, steadied
from penstock.shedding.error_sharing import Competitor, Needs, shared
from penstock.shedding.result_errors import ErrorCounts

UNSURE = 0.1
"""Rows of a cycle in which rates changed count for so much: windows of several rates look worse than they are."""

_NOTHING_LEARNED = ErrorMemory()


class ErrorNeeds:
    """The memories of the queries of a job that want certain errors, and the keep rates of the last cycle."""

    def __init__(self) -> None:
        """Begin with nothing measured."""
        self._rule = ErrorRule()
        self._memories: dict[str, ErrorMemory] = {}
        self._in_force = KeepRates()
        self.needs: Needs = {}
        """The least keep rates of the last cycle, by query."""
        self.missed = ""
        """Which errors cannot be had, and by how much they are missed; empty: all can, or nothing was measured yet."""

    def learn(self, scope: SheddingScope, counted: Mapping[str, ErrorCounts], in_force: KeepRates) -> None:
        """Take in the rows of a cycle, and the rates that were in force in it."""
        share = UNSURE if in_force != self._in_force else 1.0
        self._in_force = in_force
        for name, goal in scope.goals.items():
            memory = self._memories.get(name, _NOTHING_LEARNED)
            memory = learned(self._rule, memory, goal, counted.get(name, ErrorCounts()).scaled(share))
            self._memories[name] = steadied(self._rule, memory, goal)

    def decide(self, scope: SheddingScope, fits: Callable[[Needs], bool]) -> None:
        """Choose the least rates: what errors need as far as that fits."""
        if not scope.goals:
            self.needs, self.missed = {}, ""
            return
        competitors = {
            name: Competitor(scope.priority[name], scope.minimum[name], partial(self._need, scope, name))
            for name in scope.goals
        }
        shares = shared(competitors, fits)
        self.needs = shares.needs
        missed = [
            f"{name!r} would need to keep {self._need(scope, name, 1.0):.0%} for an error of {goal.error:.4g}"
            for name, goal in scope.goals.items()
            if name in shares.ratios and self._is_measured(name)
        ]
        self.missed = f"maximum errors cannot be met ({'; '.join(missed)})" if missed else ""

    def error_of(self, name: str, keep: float) -> float | None:
        """Return the error of a query at a keep rate in [0, 1]; None: it was not measured."""
        return error_at(self._memories.get(name, _NOTHING_LEARNED), keep)

    def _need(self, scope: SheddingScope, name: str, ratio: float) -> float:
        memory, goal = self._memories[name], scope.goals[name]
        if ratio == 1.0 and memory.need is not None:
            # A minimum may have been raised since.
            return max(memory.need, goal.floor)
        return need(self._rule, memory, goal, ratio)

    def _is_measured(self, name: str) -> bool:
        memory = self._memories[name]
        return memory.unit_error is not None or memory.blind > 0.0
