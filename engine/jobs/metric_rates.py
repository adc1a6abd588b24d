"""Rates between two snapshots of a job's metrics; pure. ``penstock top`` shows them."""

from dataclasses import astuple, dataclass

from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.jobs.metrics import InstanceMetrics, JobMetrics


@dataclass(frozen=True, slots=True)
class Shares:
    """An instance's shares of an interval: parts of it in [0, 1] that add up to 1; all 0 if no time was counted."""

    busy: float
    remote_wait: float
    core_wait: float
    input_wait: float
    output_wait: float


@dataclass(frozen=True, slots=True)
class OperatorRates:
    """Rows per second into and out of an operator."""

    rows_in: float
    rows_out: float


@dataclass(frozen=True, slots=True)
class StateRates:
    """State accesses of an operator, per second.

    ``hit_rate`` is the part that was in memory, in [0, 1]; ``wait_ns`` the mean time to fetch the rest. None: nothing
    was asked for, or fetched.
    """

    accesses: float
    hit_rate: float | None
    wait_ns: float | None


class JobRates:
    """Rates between two snapshots of one job.

    After a restart counters go back to those of a checkpoint; what went back counts as nothing, so no rate is negative.
    """

    def __init__(self, before: JobMetrics | None, after: JobMetrics) -> None:
        """Compare with an earlier snapshot; None, or one of an earlier attempt: with the start of the attempt."""
        if before is not None and before.elapsed_ns >= after.elapsed_ns:
            before = None
        self._after = after
        self.seconds = (after.elapsed_ns - (0 if before is None else before.elapsed_ns)) / 1e9
        instances = () if before is None else before.instances
        self._times = {(item.task, item.instance): item.time for item in instances}
        self._lines = {} if before is None else {line.operator: line for line in before.ledger.operators}
        self._states = {} if before is None else {state.operator: state.accesses for state in before.states}
        self._sources = {} if before is None else {source.source: source.rows for source in before.sources}
        self.source_rows = self._per_second(0 if before is None else before.source_rows, after.source_rows)
        """Rows per second read by all sources."""

    def sources(self) -> dict[str, float]:
        """Return rows per second read, by source."""
        return {
            source.source: self._per_second(self._sources.get(source.source, 0), source.rows)
            for source in self._after.sources
        }

    def operators(self) -> dict[str, OperatorRates]:
        """Return the rates of all operators."""
        rates = {}
        for line in self._after.ledger.operators:
            old = self._lines.get(line.operator)
            rows_in, rows_out = (0, 0) if old is None else (old.rows_in, old.rows_out)
            rates[line.operator] = OperatorRates(
                self._per_second(rows_in, line.rows_in), self._per_second(rows_out, line.rows_out)
            )
        return rates

    def states(self) -> dict[str, StateRates]:
        """Return the rates of all operators whose state is counted."""
        rates = {}
        for state in self._after.states:
            new, old = state.accesses, self._states.get(state.operator)
            if new is None:
                continue
            count, hits, waited_ns = new.count, new.hits, new.waited_ns
            if old is not None and old.count <= count:
                count, hits, waited_ns = count - old.count, hits - old.hits, waited_ns - old.waited_ns
            rates[state.operator] = StateRates(
                accesses=count / self.seconds if self.seconds else 0.0,
                hit_rate=hits / count if count else None,
                wait_ns=waited_ns / (count - hits) if count > hits else None,
            )
        return rates

    def shares(self, instance: InstanceMetrics) -> Shares:
        """Return how an instance of the later snapshot spent the interval."""
        old = self._times.get((instance.task, instance.instance), TimeSpent(0, 0, 0, 0, 0))
        spent = [max(0, after - before) for before, after in zip(astuple(old), astuple(instance.time), strict=True)]
        total = sum(spent)
        return Shares(*(part / total if total else 0.0 for part in spent))

    def _per_second(self, before: int, after: int) -> float:
        return max(0, after - before) / self.seconds if self.seconds else 0.0
