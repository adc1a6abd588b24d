"""The metrics of a job whose task managers each say theirs."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from penstock.engine.core.contract import Clock, RowCounters
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.jobs.metrics import JobMetrics, merge_metrics
from penstock.engine.jobs.rows_decided import RowsDecided, decided_by
from penstock.model.ids import TaskId


class PartMetrics:
    """What each task manager said last. `merged` may be called from any thread."""

    def __init__(self, plan: JobPlan, clock: Clock, bad_records: BadRecords) -> None:
        """Begin with none; the time of the attempt runs from `start`, first from now."""
        self.plan, self._clock, self._bad_records = plan, clock, bad_records
        self._parts: dict[str, JobMetrics] = {}
        self._started_ns = clock.monotonic_ns()

    def start(self) -> None:
        """Let the attempt begin now."""
        self._started_ns = self._clock.monotonic_ns()

    def add(self, manager: str, metrics: JobMetrics) -> int:
        """Take in what a task manager says; return the rows that all sources have read by then."""
        self._parts[manager] = metrics
        return sum(part.source_rows for part in self._parts.values())

    def state_bytes(self, manager: str | None, operators: Collection[str]) -> int:
        """Return how much state some operators have at a task manager, as that said last."""
        part = None if manager is None else self._parts.get(manager)
        return 0 if part is None else sum(state.bytes for state in part.states if state.operator in operators)

    def keep(self, managers: Collection[str]) -> None:
        """Let go of what others than these have said."""
        self._parts = {name: part for name, part in self._parts.items() if name in managers}

    def merged(self, name: str, now: JobMetrics | None) -> JobMetrics:
        """Return those of the job: of others as they said last, of the task manager ``name`` as they are ``now``."""
        parts = dict(self._parts)
        if now is not None:
            parts[name] = now
        merged = merge_metrics(self.plan.name, self.plan.graph, list(parts.values()))
        bad = self._bad_records
        lines = bad.lines(self.decided(merged)) if bad.rejecting else ()
        elapsed_ns = self._clock.monotonic_ns() - self._started_ns
        return replace(merged, elapsed_ns=elapsed_ns, bad_records=lines)

    def decided(
        self, metrics: JobMetrics, tasks: Collection[TaskId] | None = None, *, ended: bool = False
    ) -> Mapping[str, RowsDecided]:
        """Return of how many rows the operators of some tasks (None: all) have decided; ``ended``: no row follows."""
        names = RowCounters().as_dict()
        counted = {line.operator: {name: getattr(line, name) for name in names} for line in metrics.ledger.operators}
        return decided_by(self.plan.graph, counted, tasks, ended=ended)
