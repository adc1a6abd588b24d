"""Overload detection: whether a node must shed, and how much it may keep (DISSP, section 5.2).

`PaperDetector` is equation 5.1; `MeanDetector` lets an isolated large batch pass, as section 5.4 asks for. Called at
every shedding interval, before `shedders`.
"""

from dataclasses import dataclass, field
from typing import Protocol

from penstock.model.plan import NoChange, Numbers, not_measured

MOST_CHECKS = 40
"""Checks that are remembered."""


@dataclass(frozen=True, slots=True)
class Overload:
    """The node must shed down to ``n_to_keep`` rows: N_tuples, rounded down."""

    n_to_keep: int
    reason: str
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BufferSize:
    """The size of the input buffer at a check: batches from sources and other nodes. ``bytes`` None: not measured."""

    rows: int
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BufferHistory:
    """Buffer sizes at previous checks, oldest first: IB_size, and the rows left after the last check."""

    rows: tuple[int, ...] = ()
    rows_left: int = 0


class Detector(Protocol):
    """Detects overload; frozen, its fields are its parameters."""

    def detect(self, waiting: BufferSize, n_tuples: float | None, sizes: BufferHistory) -> Overload | NoChange:
        """Return the decision at this check; ``n_tuples`` None: nothing was processed yet."""


def n_discard(ib_size: float, n_tuples: float) -> float:
    """Return the number of excess tuples (DISSP, eq 5.1).

    N_discard = IB_size - N_tuples
      IB_size  tuples in the input buffer   N_tuples  tuples that can be processed until the next check
    """
    return ib_size - n_tuples


@dataclass(frozen=True, slots=True)
class PaperDetector:
    """Sheds whenever equation 5.1 is positive."""

    def detect(self, waiting: BufferSize, n_tuples: float | None, sizes: BufferHistory) -> Overload | NoChange:
        """Return what to do at this check."""
        return _no_cost() if n_tuples is None else _by_size(waiting, n_tuples, "the input buffer is too large")


@dataclass(frozen=True, slots=True)
class MeanDetector:
    """Sheds if the mean of several checks, or the waiting bytes, exceed a limit; this check decides the amount.

    ``checks``: the number averaged. ``limit``: of the mean, in N_tuples. A backlog that drains to N_tuples within that
    many checks by itself is no overload; beyond ``limit_bytes`` (None: no limit) it always is.
    """

    checks: int = 4
    limit: float = 1.2
    limit_bytes: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.checks <= MOST_CHECKS:
            raise ValueError(f"a mean of {self.checks} checks, but 1 to {MOST_CHECKS} are remembered")

    def detect(self, waiting: BufferSize, n_tuples: float | None, sizes: BufferHistory) -> Overload | NoChange:
        """Return what to do at this check."""
        if n_tuples is None:
            return _no_cost()
        if self.limit_bytes is not None:
            if waiting.bytes is None:
                return not_measured("bytes in the input buffer")
            if waiting.bytes > self.limit_bytes:
                return _by_size(waiting, n_tuples, "too many bytes wait")
        recent = (*sizes.rows, waiting.rows)[-self.checks :]
        mean = sum(recent) / self.checks
        numbers = {"ib_size": waiting.rows, "n_tuples": n_tuples, "mean_ib_size": mean}
        if mean <= self.limit * n_tuples:
            return NoChange("no sustained overload", numbers)
        drained = sizes.rows_left - waiting.rows
        if drained > 0 and n_discard(waiting.rows, n_tuples) <= self.checks * drained:
            return NoChange("the backlog drains by itself", numbers)
        return _by_size(waiting, n_tuples, "sustained overload")


def with_check(sizes: BufferHistory, waiting: BufferSize, decision: Overload | NoChange) -> BufferHistory:
    """Return the history after a check."""
    rows_left = min(waiting.rows, decision.n_to_keep) if isinstance(decision, Overload) else waiting.rows
    return BufferHistory((*sizes.rows, waiting.rows)[-MOST_CHECKS:], rows_left)


def _no_cost() -> NoChange:
    return not_measured("cost of a tuple")


def _by_size(waiting: BufferSize, n_tuples: float, reason: str) -> Overload | NoChange:
    too_many = n_discard(waiting.rows, n_tuples)
    numbers = {"ib_size": waiting.rows, "n_tuples": n_tuples, "n_discard": too_many}
    if too_many <= 0:
        return NoChange("N_discard is not positive", numbers)
    return Overload(int(n_tuples), reason, numbers)
