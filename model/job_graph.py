"""The logical plan: operators and the edges between them, as the user wrote them.

The DSL appends to a `JobGraph`; the planner optimises it and turns it into an execution graph.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.model.aggregates import AggregateCall
from penstock.model.connectors import Sink, Source
from penstock.model.dead_letters import LetterTarget
from penstock.model.expressions import Expr
from penstock.model.ids import OperatorId
from penstock.model.max_error import CONFIDENCE, MaxError
from penstock.model.schema import StreamSchema
from penstock.model.strata import Strata
from penstock.model.windows import Emission, Windowing

MAIN = "main"
"""The output every operator has."""

LATE = "late"
"""The output of rows that came after all their windows were over."""


Keys = tuple[tuple[str, Expr], ...]


class OperatorSpec:
    """The specification of one operator; every kind is a frozen dataclass of its own, whose name ends in ``Spec``."""

    __slots__ = ()

    def local_files(self) -> Sequence[Path]:
        """Return the files that its instances read, wherever they run; none by default."""
        return ()


@dataclass(frozen=True)
class KeyedSpec(OperatorSpec):
    """The specification of an operator with state per key; ``keys`` are its keys and their names, () for all rows."""

    keys: Keys


@dataclass(frozen=True)
class SourceSpec(OperatorSpec):
    """Read rows; the event time column is declared here together with the watermark delay.

    ``dead_letters`` is where records go that cannot be read; None: where those of the job go. Rows whose event time is
    more than ``max_ahead_us`` ahead of the clock are bad (None: none are). None are dropped under overload without
    ``shed``. ``strata`` (set by the planner): those by which they are dropped, and rows say what their records drew.
    """

    source: Source
    watermark_delay_us: int = 0
    on_error: str = "dead_letter"
    dead_letters: LetterTarget | None = None
    max_ahead_us: int | None = None
    shed: bool = True
    strata: Strata | None = None

    def local_files(self) -> Sequence[Path]:
        """Return those of the source."""
        return self.source.local_files()


@dataclass(frozen=True)
class BranchSpec(OperatorSpec):
    """Pass the rows that an edge between two operators keeps under overload; set by the planner.

    ``edge`` names its producer and consumer, ``number`` the branch among those behind its source (None: all rows pass).
    ``is_last``: none follows on the way, so that rows need to carry their steps no further.
    """

    edge: tuple[str, str]
    number: int | None
    is_last: bool


@dataclass(frozen=True)
class FilterSpec(OperatorSpec):
    """Pass the rows for which the predicate is true; null drops."""

    predicate: Expr


@dataclass(frozen=True)
class ProjectSpec(OperatorSpec):
    """Compute every output column from the input columns: select, with_columns, drop and rename.

    With ``where`` (set by the optimiser), only for the rows for which it is true.
    """

    columns: tuple[tuple[str, Expr], ...]
    where: Expr | None = None


@dataclass(frozen=True)
class RowFunctionSpec(OperatorSpec):
    """Call a user function per row: ``map``, ``flat_map`` or ``filter``.

    ``columns`` are those it may use (None: all, as dicts); ``fields`` the schema of what it returns.
    """

    kind: str
    function: Callable[..., Any]
    fields: pa.Schema
    columns: tuple[str, ...] | None = None
    on_error: str = "dead_letter"


@dataclass(frozen=True)
class BatchFunctionSpec(OperatorSpec):
    """Call a user function per batch; anything with the Arrow PyCapsule interface goes in and out."""

    function: Callable[[Any], Any]
    fields: pa.Schema
    format: str = "pyarrow"
    on_error: str = "dead_letter"


@dataclass(frozen=True)
class UnionSpec(OperatorSpec):
    """Merge streams of one schema, in any order."""


@dataclass(frozen=True)
class SplitSpec(OperatorSpec):
    """Send every row to the first output whose predicate is true, the rest to the main output."""

    outputs: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class AggregateSpec(KeyedSpec):
    """Group by keys (and a window) and aggregate; without a window the result is updating.

    Output fields: the keys, then ``window_start`` and ``window_end`` with a window, then the aggregates; with
    ``estimates``, which the planner sets for queries under contract, the columns of `result_columns` behind them, with
    intervals at ``confidence``. ``sampler``, which it sets too, is the number of the sampler of keys behind its source;
    None: it needs all rows.
    """

    aggregates: tuple[tuple[str, AggregateCall], ...]
    windowing: Windowing | None = None
    emission: Emission = Emission(mode="updates")
    estimates: bool = False
    confidence: float = CONFIDENCE
    sampler: int | None = None


@dataclass(frozen=True)
class ReduceSpec(KeyedSpec):
    """Fold the rows of a key (and a window) in event-time order with a user function of two rows."""

    function: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
    windowing: Windowing | None = None
    emission: Emission = Emission(mode="updates")


@dataclass(frozen=True)
class AsyncFunctionSpec(OperatorSpec):
    """Call a coroutine function per row, off the worker's thread; at most ``capacity`` rows wait for their answers.

    ``ordered``: results leave in the order of their rows. A call that fails or takes longer than ``timeout_us`` is made
    again up to ``retries`` times. ``columns`` and ``fields`` as in `RowFunctionSpec`.
    """

    function: Callable[..., Any]
    fields: pa.Schema
    columns: tuple[str, ...] | None = None
    capacity: int = 1_000
    ordered: bool = True
    timeout_us: int = 10_000_000
    retries: int = 0
    on_error: str = "dead_letter"


@dataclass(frozen=True)
class TimeSpec(OperatorSpec):
    """Take another timestamp column as event time, whose watermark is the input's less ``delay_us``.

    A row whose new time is before that watermark is late; one whose time is null or out of range a dead letter.
    """

    column: str
    delay_us: int = 0


@dataclass(frozen=True)
class SinkSpec(OperatorSpec):
    """Write rows. ``mode``: ``append``, ``changelog`` or ``upsert`` (with ``key``).

    ``min_accuracy`` in [0, 1] and ``priority`` (greater is more important) bound what may be shed for this query;
    below 1 it is under contract. ``max_lag_us`` is how long after it came a row may be waiting before that is overload
    (None: as the run says). ``columns``: results of a query under contract say how good they are. ``max_error``: the
    error that is wanted of them. ``strata``: those by which its sources are to drop rows.
    """

    sink: Sink
    mode: str = "append"
    key: tuple[str, ...] = ()
    min_accuracy: float = 1.0
    priority: int = 0
    max_lag_us: int | None = None
    columns: bool = True
    max_error: MaxError | None = None
    strata: Strata | None = None

    @property
    def under_contract(self) -> bool:
        """Whether rows may be shed for this query."""
        return self.min_accuracy < 1.0

    @property
    def confidence(self) -> float:
        """The confidence of its intervals."""
        return CONFIDENCE if self.max_error is None else self.max_error.confidence

    @property
    def leaves_out_wide(self) -> bool:
        """Whether values whose interval is too wide are null."""
        return self.max_error is not None and self.max_error.otherwise == "null"

    @property
    def queues_wide(self) -> bool:
        """Whether rows whose interval is too wide wait to be corrected."""
        return self.max_error is not None and self.max_error.otherwise == "correct"

    @property
    def shows_quality(self) -> bool:
        """Whether it writes how good its results are."""
        return self.under_contract and self.columns


@dataclass(frozen=True)
class Input:
    """An edge: the operator's output that feeds a port, and the exchange that the user chose (None: the planner's)."""

    operator: OperatorId
    output: str = MAIN
    exchange: str | None = None


@dataclass(frozen=True)
class OperatorNode:
    """An operator of the job graph: its spec, inputs and the schema of each output.

    ``name`` is the stable identity; ``named`` says whether the user chose it. ``where`` is the user's file:line.
    ``parallelism`` None means the job's. ``resources`` are what each instance needs beyond a core, by Ray's names.
    """

    id: OperatorId
    name: str
    spec: OperatorSpec
    inputs: tuple[Input, ...]
    outputs: Mapping[str, StreamSchema]
    named: bool = False
    parallelism: int | None = None
    where: str = ""
    resources: tuple[tuple[str, float], ...] = ()

    @property
    def kind(self) -> str:
        """The spec's noun in lower case: source, filter, aggregate..."""
        return type(self.spec).__name__.removesuffix("Spec").lower()


@dataclass
class JobGraph:
    """Operators in the order they were added; inputs always stand before their users."""

    operators: dict[OperatorId, OperatorNode] = field(default_factory=dict)

    def add(self, node: OperatorNode) -> None:
        """Append an operator, or replace the one of the same id."""
        self.operators[node.id] = node

    def __getitem__(self, operator: OperatorId) -> OperatorNode:
        return self.operators[operator]

    def upstream(self, operators: Iterable[OperatorId]) -> dict[OperatorId, OperatorNode]:
        """Return these operators and all whose rows come to them, in the order of the graph."""
        wanted: set[OperatorId] = set()
        pending = list(operators)
        while pending:
            operator = pending.pop()
            if operator not in wanted:
                wanted.add(operator)
                pending += [edge.operator for edge in self[operator].inputs]
        return {key: node for key, node in self.operators.items() if key in wanted}

    def is_read(self, operator: OperatorId, output: str) -> bool:
        """Return whether anything reads this output of `operator`."""
        return any(
            edge.operator == operator and edge.output == output
            for node in self.operators.values()
            for edge in node.inputs
        )

    def consumers(self, operator: OperatorId) -> list[tuple[OperatorNode, int]]:
        """Return (operator, port) of everything that reads an output of `operator`."""
        return [
            (node, port)
            for node in self.operators.values()
            for port, edge in enumerate(node.inputs)
            if edge.operator == operator
        ]
