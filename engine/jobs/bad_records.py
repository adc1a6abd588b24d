"""The bad records of a job, from its start to its end: how many of each operator, the first error, whether to go on.

One for a whole run: it outlives attempts, and hears of all instances of an operator together, by values
(`rows_decided`). Whoever leads the job asks for `verdict` when something was rejected.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from penstock.engine.connectors.dead_letter import FirstBadRecord
from penstock.engine.jobs.rows_decided import RowsDecided
from penstock.model.dead_letter_limit import NO_LIMIT, DeadLetterLimit, RejectedRows
from penstock.model.errors import DeadLetterLimitError

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
        self._earlier: dict[str, RowsDecided] = {}
        self._base: dict[str, RowsDecided] = {}
        # Those that may still exceed the limit: by default none that has met a good row.
        self._open: set[str] = set()

    @property
    def rejecting(self) -> Collection[str]:
        """The operators that have met a bad record: those that `lines` must hear of. From any thread."""
        return self._first.keys()

    @property
    def undecided(self) -> Collection[str]:
        """The operators that have met a bad record and may still exceed the limit: those a verdict must hear of."""
        return self._open

    def met(self, record: FirstBadRecord) -> None:
        """Take note of an operator's bad record; all but the first that is heard of are known by their number only."""
        if record.operator in self._first:
            return
        first = self._first[record.operator] = BadRecordsLine(
            record.operator, 0, 1, record.error, record.line, record.position, record.place
        )
        if record.handled:
            self._handled.add(record.operator)
        if self._limit != NO_LIMIT:
            self._open.add(record.operator)
        if self._warn is not None and not record.handled:
            what = (
                "this one and any others are skipped"
                if record.place is None
                else f"it and any others go to {record.place}"
            )
            self._warn(f"BAD RECORD: of {record.operator!r}: {first.first()}; {what}")

    def verdict(self, decided: Mapping[str, RowsDecided], *, stopping: bool) -> DeadLetterLimitError | None:
        """Return why the job must fail, None if it may go on; ``stopping``: inputs may end before their end.

        ``decided`` is what all instances of a job have decided, of the `undecided` operators at least.
        """
        for name, now in decided.items():
            if name not in self._open:
                continue
            rows = self._add_up(now, name)
            excess = rows.excess(self._limit, ended=not stopping and now.all_ended, handled=name in self._handled)
            if self._limit.all and self._count(now, name).good:
                self._open.discard(name)
            elif excess is not None:
                return DeadLetterLimitError(self._sentence(name, excess))
        return None

    def began(self, decided: Mapping[str, RowsDecided]) -> None:
        """All instances of operators are about to run; what a checkpoint had counted is not of this run."""
        self._base.update(decided)

    def ended(self, decided: Mapping[str, RowsDecided]) -> None:
        """All instances of operators are gone, having decided so much; others may begin in their place."""
        for name, now in decided.items():
            self._earlier[name] = self._count(now, name)
            self._base[name] = now

    def lines(self, decided: Mapping[str, RowsDecided]) -> tuple[BadRecordsLine, ...]:
        """Return what there is to say of each operator that has met a bad record, in their order."""
        return tuple(self._line(name, self._add_up(now, name)) for name, now in decided.items() if name in self._first)

    def _add_up(self, now: RowsDecided, name: str) -> RejectedRows:
        count = self._count(now, name)
        counted = self._counted.setdefault(name, RejectedRows())
        counted.rows, counted.rejected = count.rows, count.rejected
        return counted

    def _count(self, now: RowsDecided, name: str) -> RowsDecided:
        """Return what was decided since the job was started."""
        base, earlier = self._base.get(name), self._earlier.get(name)
        since = now if base is None else now.since(base)
        return since if earlier is None else since.after(earlier)

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
