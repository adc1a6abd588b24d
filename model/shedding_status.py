"""What load shedding does to a running job, for status, metrics and summaries."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryAccuracy:
    """The accuracy of a query in the last cycle, shares in [0, 1]: its minimum, what is desired, what it had."""

    query: str
    minimum: float
    priority: float
    desired: float
    current: float


@dataclass(frozen=True, slots=True)
class SheddingStatus:
    """The last decision of load shedding: the policy ``shed``, its ``mode``, its reason, and the rates it came to.

    ``sources``: (source, keep rate) of those that do not keep all; ``branches``: (producer, consumer, keep rate).
    ``infeasible``: why minimums cannot be met, "" if they can: sources are held back then. ``applied``: the rates are
    those of the shedders, and not only recommended. ``late_ticks`` came more than half a second after they were due,
    the latest by ``latest_ms``.
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

    def sentence(self) -> str:
        """Return the rates and the accuracy of each query that does not have all, for people."""
        rates = [f"{source} {rate:.0%}" for source, rate in self.sources]
        rates += [f"{producer} > {consumer} {rate:.0%}" for producer, consumer, rate in self.branches]
        lower = [each for each in self.queries if each.desired < 1.0 or each.current < 0.995]
        accuracies = [f"{each.query} desired {each.desired:.0%}, had {each.current:.0%}" for each in lower]
        said = f"{', '.join(rates) or 'all'}{'' if self.applied else ', recommended only'}"
        said += f" ({'; '.join(accuracies)})" if accuracies else ""
        return f"{said}; infeasible: {self.infeasible}" if self.infeasible else said
