"""The bad records of a job, from its start to its end: how many of each operator, the first error, whether to go on.

One for a whole run: it outlives attempts, and adds up the instances of an operator. Operators count rows in their
`RowCounters`; whoever turns the loop asks for `verdict` when something was rejected.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from penstock.engine.core.contract import RowCounters
from penstock.engine.dataflow.build import Build
from penstock.engine.operators.registry import descriptor_of
from penstock.model.dead_letter_limit import NO_LIMIT, DeadLetterLimit, RejectedRows
from penstock.model.errors import DeadLetterLimitError
from penstock.model.ids import OperatorId

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class BadRecordsLine:
    """The bad records of one operator since the job was started: of ``rows`` that it took in, ``rejected``.

    ``error`` is the first one's, ``line`` the line of the user's code that it came from (``file:line``), ``position``
    where a source met it; both may be empty. ``place`` is where records are kept, None if they were skipped.
    """

    operator: str
    rows: int
    rejected: int
    error: str
    line: str
    position: str
    place: str | None

    def sentence(self) -> str:
        """Return it for people, on one line."""
        what = "dead letters" if self.place is not None else "skipped records"
        where = "" if self.place is None else f"; they are in {self.place}"
        return f"{what}: {self.rejected:,} of {self.operator!r}, the first: {self.first()}{where}"

    def count(self) -> str:
        """Return how many there are, of how many, and the first error."""
        return f"{self.rejected:,} of {self.rows:,} records of {self.operator!r} are bad, the first: {self.first()}"

    def first(self) -> str:
        """Return the first error and where it was met."""
        error = " ".join(self.error.split())
        shown = error if len(error) <= _SHOWN else f"{error[: _SHOWN - 3]}..."
        places = ", ".join(place for place in (self.position, self.line) if place)
        return f"{shown} ({places})" if places else shown


@dataclass(frozen=True, slots=True)
class _Count:
    """Rows of which an operator has decided, those it has rejected, and those it has found good."""

    rows: int
    rejected: int
    good: int

    @classmethod
    def of(cls, build: Build, operator: OperatorId) -> "_Count":
        total = RowCounters.total(build.counters[operator])
        waits = descriptor_of(build.graph.node(operator).spec).folded_may_fail
        good = total.passed + total.filtered + total.late + (0 if waits else total.folded)
        return cls(total.rows_in - (total.folded if waits else 0), total.dead_lettered, good)

    def plus(self, other: "_Count", times: int = 1) -> "_Count":
        return _Count(
            self.rows + times * other.rows, self.rejected + times * other.rejected, self.good + times * other.good
        )


class BadRecords:
    """Counts against a limit. Not for two threads at once, but `lines` may be asked for from any."""

    def __init__(self, limit: DeadLetterLimit = NO_LIMIT, warn: Callable[[str], None] | None = None) -> None:
        """``warn`` is told of the first bad record of each operator."""
        self._limit = limit
        self._warn = warn
        self._first: dict[str, BadRecordsLine] = {}
        # Those whose dead letters a stream reads.
        self._handled: set[str] = set()
        self._counted: dict[str, RejectedRows] = {}
        # By operator: of instances that were taken down, and what those that are up had counted when they began.
        self._earlier: dict[str, _Count] = {}
        self._base: dict[str, _Count] = {}
        # Those that may still exceed the limit: by default none that has met a good row.
        self._open: set[str] = set()

    def met(self, operator: str, error: str, line: str, position: str, place: str | None, handled: bool) -> None:
        """Take note of an operator's bad record; all but its first are known by their number only.

        ``handled``: a stream reads the operator's dead letters.
        """
        if operator in self._first:
            return
        first = self._first[operator] = BadRecordsLine(operator, 0, 1, error, line, position, place)
        if handled:
            self._handled.add(operator)
        if self._limit != NO_LIMIT:
            self._open.add(operator)
        if self._warn is not None and not handled:
            what = "this one and any others are skipped" if place is None else f"it and any others go to {place}"
            self._warn(f"BAD RECORD: of {operator!r}: {first.first()}; {what}")

    def verdict(self, build: Build, *, stopping: bool, last_barrier: int | None = None) -> DeadLetterLimitError | None:
        """Return why the job must fail, None if it may go on; ``stopping``: inputs may end before their end.

        Behind ``last_barrier`` no row follows, though inputs stay open for a later run; None: it was not sent.
        """
        if not self._open:
            return None
        for operator, name in self._affected(build):
            if name not in self._open:
                continue
            rows = self._add_up(build, operator, name)
            ended = not stopping and _ended(build, operator, last_barrier)
            excess = rows.excess(self._limit, ended=ended, handled=name in self._handled)
            if self._limit.all and self._count(build, operator, name).good:
                self._open.discard(name)
            elif excess is not None:
                return DeadLetterLimitError(self._sentence(name, excess))
        return None

    def began(self, part: Build) -> None:
        """Instances are about to run; a checkpoint may have given them counts, which are not of this run."""
        for operator in part.counters:
            self._base[part.graph.node(operator).name] = _Count.of(part, operator)

    def ended(self, build: Build, operators: Iterable[OperatorId]) -> None:
        """These operators' instances are gone; others may begin in their place."""
        for operator in operators:
            name = build.graph.node(operator).name
            self._earlier[name] = self._count(build, operator, name)
            self._base[name] = _Count.of(build, operator)

    def lines(self, build: Build) -> tuple[BadRecordsLine, ...]:
        """Return what there is to say of each operator that has met a bad record, in the plan's order."""
        return tuple(self._line(name, self._add_up(build, operator, name)) for operator, name in self._affected(build))

    def _affected(self, build: Build) -> list[tuple[OperatorId, str]]:
        names = ((operator, build.graph.node(operator).name) for operator in build.counters)
        return [(operator, name) for operator, name in names if name in self._first]

    def _add_up(self, build: Build, operator: OperatorId, name: str) -> RejectedRows:
        count = self._count(build, operator, name)
        counted = self._counted.setdefault(name, RejectedRows())
        counted.rows, counted.rejected = count.rows, count.rejected
        return counted

    def _count(self, build: Build, operator: OperatorId, name: str) -> "_Count":
        now, base, earlier = _Count.of(build, operator), self._base.get(name), self._earlier.get(name)
        since = now if base is None else now.plus(base, -1)
        return since if earlier is None else since.plus(earlier)

    def _line(self, name: str, rows: RejectedRows) -> BadRecordsLine:
        return replace(self._first[name], rows=rows.rows, rejected=rows.rejected)

    def _sentence(self, name: str, excess: str) -> str:
        line = self._line(name, self._counted[name])
        kept = "they were skipped" if line.place is None else f"they are in {line.place}"
        bound = "" if self._limit.all else f", more than max_dead_letters={self._limit} allows"
        return (
            f"{name!r} cannot go on: {excess}{bound}; the first error: {line.first()}; {kept}. Mend the function or "
            'the input and run it again, or choose how many are borne: max_dead_letters=1000, "5%" or "any" '
            "(--max-dead-letters)"
        )


def _ended(build: Build, operator: OperatorId, last_barrier: int | None) -> bool:
    return all(
        instance.done or (last_barrier is not None and instance.delivered >= last_barrier)
        for instance in build.tasks[build.graph.task_of(operator).id]
    )
