"""The ledger: every row is accounted for, operator by operator and edge by edge."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from penstock.engine.core.contract import RowCounters
from penstock.engine.dataflow.build import Build
from penstock.model.errors import BugError


@dataclass(frozen=True, slots=True)
class OperatorLine:
    """Rows of one operator, all instances together; see `RowCounters` for the meaning of each."""

    operator: str
    rows_in: int
    passed: int
    folded: int
    filtered: int
    late: int
    dead_lettered: int
    rows_out: int


@dataclass(frozen=True, slots=True)
class EdgeLine:
    """Rows that were sent into and received from the channels of one edge."""

    edge: str
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account of every row of a job."""

    operators: tuple[OperatorLine, ...]
    edges: tuple[EdgeLine, ...]

    @property
    def late(self) -> int:
        """Rows that came after all their windows were over."""
        return sum(line.late for line in self.operators)

    @property
    def dead_lettered(self) -> int:
        """Records that could not be read or processed."""
        return sum(line.dead_lettered for line in self.operators)


def read_ledger(build: Build) -> Ledger:
    """Add up the counters of a running or ended job."""
    operators = tuple(
        OperatorLine(build.graph.node(operator).name, **RowCounters.total(counters).as_dict())
        for operator, counters in build.counters.items()
    )
    edges = tuple(
        EdgeLine(
            f"{build.graph.node(edge.producer).name} -> {build.graph.node(edge.consumer).name}",
            sum(sender.sent_rows for sender in senders.values()),
            sum(receiver.received_rows for receiver in build.receivers[edge].values()),
        )
        for edge, senders in build.senders.items()
    )
    return Ledger(operators, edges)


def add_ledgers(ledgers: Iterable[Ledger]) -> Ledger:
    """Return the account of a job whose instances are in several places: sums by operator and edge, in their order."""
    operators: dict[str, Counter[str]] = {}
    edges: dict[str, Counter[str]] = {}
    for ledger in ledgers:
        for line in ledger.operators:
            operators.setdefault(line.operator, Counter()).update(_figures(line))
        for edge in ledger.edges:
            edges.setdefault(edge.edge, Counter()).update(_figures(edge))
    return Ledger(
        tuple(OperatorLine(name, **counts) for name, counts in operators.items()),
        tuple(EdgeLine(name, **counts) for name, counts in edges.items()),
    )


def _figures(line: OperatorLine | EdgeLine) -> dict[str, int]:
    return {name: value for name, value in asdict(line).items() if isinstance(value, int)}


def check_ledger(ledger: Ledger, *, ended: bool) -> None:
    """Assert that nothing was lost uncounted; with ``ended`` also that the channels are empty.

    Raises:
        BugError: naming the operator or edge whose figures do not add up.
    """
    for line in ledger.operators:
        accounted = line.passed + line.folded + line.filtered + line.late + line.dead_lettered
        if line.rows_in != accounted:
            raise BugError(
                f"ledger: operator {line.operator!r} took {line.rows_in} rows in and accounts for {accounted}: {line}"
            )
    for edge in ledger.edges:
        if edge.received > edge.sent or (ended and edge.received != edge.sent):
            raise BugError(f"ledger: edge {edge.edge!r} sent {edge.sent} rows and {edge.received} were received")
