"""Budgets of operators' state that change while a job runs: written by whoever changes them, read by its attempts."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.engine.plan.planner import lies_by_key
from penstock.model.config import LoopOptions, check_count
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.memory_levels import LEAST_BYTES

NOT_PAGED = (
    "the job keeps all its state in memory, and has nowhere to put what is above a budget: run it with "
    "checkpoint_dir=..., or with state_bytes=..."
)


class MemoryKeeper(Protocol):
    """Keeps budgets for runs that follow."""

    def read(self) -> Mapping[str, int]:
        """Return what was written last."""

    def write(self, budgets: Mapping[str, int]) -> None:
        """Keep these in place of others."""


@dataclass(frozen=True, slots=True)
class OperatorMemory:
    """The budget of an operator's state in each of its instances, before a change and after; null: there is none."""

    operator: str
    instances: int
    before_bytes: int | None
    after_bytes: int | None


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """The budgets of all operators whose state lies by keys, and the sum of those there are, within a quota or none."""

    operators: tuple[OperatorMemory, ...]
    total_bytes: int
    quota_bytes: int | None


class RunningMemory:
    """The budgets of one run, over all its attempts and restores. Any thread may change them."""

    def __init__(self) -> None:
        """Begin with those of its program."""
        self.wanted: Mapping[str, int | None] = {}
        """The budgets in bytes that were changed, by operator, of each instance; another object after each change."""
        self.noted: Callable[[Mapping[str, int | None]], None] = _note_nowhere
        """Takes all changed budgets after each change, in the thread that asked for it."""
        self.quota_bytes: int | None = None
        """The most that all budgets may add up to; None: there is no such bound."""
        self._keeper: MemoryKeeper | None = None
        # Each change rests on the one before.
        self._changing = threading.Lock()

    def begin(self, budgets: Mapping[str, int | None]) -> None:
        """Let budgets hold that were changed before, by the same job with another head."""
        self.wanted = dict(budgets)

    def keep(self, keeper: MemoryKeeper, graph: ExecutionGraph, *, anew: bool, warn: Callable[[str], None]) -> None:
        """Let budgets of an earlier run hold, unless the job begins ``anew``, and keep those that follow.

        Raises:
            CheckpointError: what was kept cannot be read.
            RetryableError: the storage failed; call again.
        """
        with self._changing:
            if self._keeper is not None:
                return
            kept: Mapping[str, int] = {}
            if anew:
                keeper.write({})
            else:
                kept = keeper.read()
            keyed = _instances(graph)
            gone = sorted(kept.keys() - keyed.keys())
            if gone:
                warn(f"MEMORY: of an earlier run the budget of {', '.join(map(repr, gone))} is let go: it has no state")
            wanted = {**{name: size for name, size in kept.items() if name in keyed}, **self.wanted}
            if self.wanted:
                # It was changed before there was anywhere to keep it.
                keeper.write({name: size for name, size in wanted.items() if size is not None})
            self._keeper, self.wanted = keeper, wanted

    def look(self, graph: ExecutionGraph, options: LoopOptions) -> MemorySummary:
        """Return the budgets that hold, as those before and after a change that changes nothing."""
        return self._summary(graph, options, self.wanted)

    def preview(
        self, graph: ExecutionGraph, options: LoopOptions, budgets: Mapping[str, int | None], *, paged: bool
    ) -> MemorySummary:
        """Return what a change would lead to; raises as `change`."""
        return self._checked(graph, options, budgets, paged=paged)[1]

    def change(
        self, graph: ExecutionGraph, options: LoopOptions, budgets: Mapping[str, int | None], *, paged: bool
    ) -> MemorySummary:
        """Let operators have these budgets (None: as their program says); they are kept before they hold.

        ``paged``: there is somewhere to put what is above a budget.

        Raises:
            OptionError: there is no such operator, or too little for it, or all are more than the quota.
            RetryableError: they could not be kept; nothing has changed.
        """
        with self._changing:
            wanted, summary = self._checked(graph, options, budgets, paged=paged)
            if self._keeper is not None:
                own = options.state_bytes
                self._keeper.write({name: size for name, size in wanted.items() if size is not None and size != own})
            self.wanted = wanted
            self.noted(wanted)
            return summary

    def _checked(
        self, graph: ExecutionGraph, options: LoopOptions, budgets: Mapping[str, int | None], *, paged: bool
    ) -> tuple[Mapping[str, int | None], MemorySummary]:
        if not paged:
            raise OptionError(NOT_PAGED)
        if not budgets:
            raise OptionError("say which operators are to have which memory")
        keyed = _instances(graph)
        for name, size in budgets.items():
            if name not in keyed:
                there = f"these have: {', '.join(map(repr, sorted(keyed)))}" if keyed else "none of the job has"
                raise OptionError(f"no operator {name!r} has state by keys, whose memory could change: {there}")
            if size is not None:
                check_count(f"the memory of {name!r} in bytes", size, least=LEAST_BYTES)
        own = options.state_bytes
        wanted = {**self.wanted, **{name: own if size is None else size for name, size in budgets.items()}}
        summary, before = self._summary(graph, options, wanted), self._summary(graph, options, self.wanted)
        quota = self.quota_bytes
        if quota is not None and summary.total_bytes > max(quota, before.total_bytes):
            raise OptionError(
                f"all budgets would be {summary.total_bytes:,} bytes, and the job may have {quota:,} (memory of its "
                "control): lower that of another operator in the same order"
            )
        return wanted, summary

    def _summary(self, graph: ExecutionGraph, options: LoopOptions, wanted: Mapping[str, int | None]) -> MemorySummary:
        own = options.state_bytes
        operators = tuple(
            OperatorMemory(name, instances, self.wanted.get(name, own), wanted.get(name, own))
            for name, instances in _instances(graph).items()
        )
        total = sum(item.instances * item.after_bytes for item in operators if item.after_bytes is not None)
        return MemorySummary(operators, total, self.quota_bytes)


def _note_nowhere(budgets: Mapping[str, int | None]) -> None:
    """Let them go: what is kept beside checkpoints is all that is kept."""


def _instances(graph: ExecutionGraph) -> dict[str, int]:
    """Return how many instances each operator has whose state lies by keys, by its name."""
    return {
        graph.node(operator).name: task.parallelism
        for task in graph.tasks
        for operator in task.operators
        if lies_by_key(graph, graph.node(operator))
    }
