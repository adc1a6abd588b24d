"""What load shedding does to a running job, for status, metrics and summaries."""

from dataclasses import dataclass

DIGITS = 6
"""The digits behind the point of a share as people read it."""


@dataclass(frozen=True, slots=True)
class QueryAccuracy:
    """The accuracy of a query in the last cycle, shares in [0, 1]: its minimum, what is desired, what it had.

    Of a query that wants a certain error: ``max_error``, the ``error`` that it has at ``current`` (None: not measured),
    and the least keep rate that it is ``granted`` for that.
    """

    query: str
    minimum: float
    priority: float
    desired: float
    current: float
    max_error: float | None = None
    error: float | None = None
    granted: float | None = None

    def rounded(self) -> "QueryAccuracy":
        """Return it with shares to `DIGITS` digits: rates multiplied are off in the last of a double."""
        return QueryAccuracy(
            self.query,
            round(self.minimum, DIGITS),
            self.priority,
            round(self.desired, DIGITS),
            round(self.current, DIGITS),
            self.max_error,
            None if self.error is None else round(self.error, DIGITS),
            None if self.granted is None else round(self.granted, DIGITS),
        )


@dataclass(frozen=True, slots=True)
class SheddingStatus:
    """The last decision of load shedding: the policy ``shed``, its ``mode``, its reason, and the rates it came to.

    ``sources``: (source, keep rate) of those that do not keep all; ``branches``: (producer, consumer, keep rate).
    ``infeasible``: why minimums cannot be met, "" if they can: sources are held back then. ``applied``: the rates are
    those of the shedders, and not only recommended. ``late_ticks`` came more than half a second after they were due,
    the latest by ``latest_ms``. ``missed``: which maximum errors cannot be met, "" if all can be. ``checks`` of what
    waits were made by SIC in all processes, which took ``checks_ms`` of CPU together, and at most ``longest_check_ms``.
    """

    shed: str
    mode: str
    reason: str
    queries: tuple[QueryAccuracy, ...] = ()
    sources: tuple[tuple[str, float], ...] = ()
    branches: tuple[tuple[str, str, float], ...] = ()
    infeasible: str = ""
    applied: bool = False
    late_ticks: int = 0
    latest_ms: int = 0
    missed: str = ""
    checks: int = 0
    checks_ms: float = 0.0
    longest_check_ms: float = 0.0

    def rates(self) -> str:
        """Return the rates of what is not kept whole, for people."""
        rates = [f"{source} {rate:.0%}" for source, rate in self.sources]
        rates += [f"{producer} > {consumer} {rate:.0%}" for producer, consumer, rate in self.branches]
        return ", ".join(rates) or "all"

    def sentence(self) -> str:
        """Return the rates, the accuracy of each query that does not have all, and the reason, for people."""
        lower = [each for each in self.queries if each.desired < 1.0 or each.current < 0.995]
        accuracies = [
            f"{each.query} desired {each.desired:.0%}, had {each.current:.0%}"
            + (f", error {each.error:.1%}" if each.error is not None else "")
            for each in lower
        ]
        said = f"{self.rates()}{'' if self.applied else ', recommended only'}"
        said += f" ({'; '.join(accuracies)})" if accuracies else ""
        said += f"; {self.reason}"
        said += f"; {self.missed}" if self.missed else ""
        return f"{said}; infeasible: {self.infeasible}" if self.infeasible else said
