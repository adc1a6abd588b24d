"""The ledger: every row is accounted for, operator by operator and edge by edge."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from penstock.engine.core.contract import RowCounters
from penstock.engine.dataflow.build import Build
from penstock.model.errors import BugError
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import OperatorId


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
    shed: int = 0


@dataclass(frozen=True, slots=True)
class EdgeLine:
    """Rows that were sent into and received from the channels of one edge."""

    edge: str
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account of every row of a job.

    ``missing`` are task managers that were lost once everything was committed, before they had said their last figures.
    """

    operators: tuple[OperatorLine, ...]
    edges: tuple[EdgeLine, ...]
    missing: tuple[str, ...] = ()

    @property
    def late(self) -> int:
        """Rows that came after all their windows were over."""
        return sum(line.late for line in self.operators)

    @property
    def dead_lettered(self) -> int:
        """Records that could not be read or processed."""
        return sum(line.dead_lettered for line in self.operators)

    @property
    def shed(self) -> int:
        """Records that were dropped by a keep rate, at sources and where branches part."""
        return sum(line.shed for line in self.operators)


def read_ledger(build: Build) -> Ledger:
    """Add up the counters of a running or ended job."""
    operators = tuple(
        OperatorLine(build.graph.node(operator).name, **RowCounters.total(counters).as_dict())
        for operator, counters in build.counters.items()
    )
    edges = tuple(
        EdgeLine(
            edge_name(build.graph, edge),
            sum(sender.sent_rows for sender in senders.values()),
            sum(receiver.received_rows for receiver in build.receivers[edge].values()),
        )
        for edge, senders in build.senders.items()
    )
    return Ledger(operators, edges)


def add_ledgers(ledgers: Iterable[Ledger]) -> Ledger:
    """Return the account of a job whose instances are in several places: sums by operator and edge, in their order.

    Edges that have one name, such as those of a join of a stream with itself, are told apart by their order.
    """
    operators: dict[str, Counter[str]] = {}
    edges: dict[tuple[str, int], Counter[str]] = {}
    for ledger in ledgers:
        for line in ledger.operators:
            operators.setdefault(line.operator, Counter()).update(_figures(line))
        namesakes = Counter[str]()
        for edge in ledger.edges:
            edges.setdefault((edge.edge, namesakes[edge.edge]), Counter()).update(_figures(edge))
            namesakes[edge.edge] += 1
    return Ledger(
        tuple(OperatorLine(name, **counts) for name, counts in operators.items()),
        tuple(EdgeLine(name, **counts) for (name, _), counts in edges.items()),
    )


def ordered_ledger(ledger: Ledger, graph: ExecutionGraph) -> Ledger:
    """Return the same account in the order in which `read_ledger` lists a build of the whole plan."""
    operators = {operator: number for number, operator in enumerate(operator_order(graph))}
    # Of edges of one name the first in the ledger is the first in the plan.
    places: dict[str, deque[int]] = {}
    for number, edge in enumerate(graph.edges):
        if not edge.chained:
            places.setdefault(edge_name(graph, edge), deque()).append(number)
    edges = [(places[line.edge].popleft(), line) for line in ledger.edges]
    return Ledger(
        tuple(sorted(ledger.operators, key=lambda line: operators[line.operator])),
        tuple(line for _, line in sorted(edges, key=lambda placed: placed[0])),
        ledger.missing,
    )


def operator_order(graph: ExecutionGraph) -> tuple[str, ...]:
    """Return the names of a plan's operators in the order in which a build makes them: by task, along its chain."""
    chained: dict[OperatorId, list[OperatorId]] = {}
    for edge in graph.edges:
        if edge.chained:
            chained.setdefault(edge.producer, []).append(edge.consumer)
    ordered: dict[OperatorId, None] = {}
    ahead = [task.head for task in reversed(graph.tasks)]
    while ahead:
        operator = ahead.pop()
        ordered.setdefault(operator)
        ahead += reversed(chained.get(operator, ()))
    return tuple(graph.node(operator).name for operator in ordered)


def edge_name(graph: ExecutionGraph, edge: Edge) -> str:
    """Return the name of an edge in the ledger."""
    return f"{graph.node(edge.producer).name} -> {graph.node(edge.consumer).name}"


def _figures(line: OperatorLine | EdgeLine) -> dict[str, int]:
    return {name: value for name, value in asdict(line).items() if isinstance(value, int)}


def check_ledger(ledger: Ledger, *, ended: bool) -> None:
    """Assert that nothing was lost uncounted; with ``ended`` also that the channels are empty.

    Figures of which some are ``missing`` cannot add up, and are not looked at.

    Raises:
        BugError: naming the operator or edge whose figures do not add up.
    """
    if ledger.missing:
        return
    for line in ledger.operators:
        accounted = line.passed + line.folded + line.filtered + line.late + line.dead_lettered + line.shed
        if line.rows_in != accounted:
            raise BugError(
                f"ledger: operator {line.operator!r} took {line.rows_in} rows in and accounts for {accounted}: {line}"
            )
    for edge in ledger.edges:
        if edge.received > edge.sent or (ended and edge.received != edge.sent):
            raise BugError(f"ledger: edge {edge.edge!r} sent {edge.sent} rows and {edge.received} were received")
