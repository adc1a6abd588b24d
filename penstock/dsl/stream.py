"""Streams: what users chain methods on.

Every method checks its arguments against the schema and returns a new stream.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.dsl.arguments import (
    Column,
    Order,
    check_condition,
    check_function,
    check_resources,
    keywords,
    refusal,
    return_annotation,
)
from penstock.dsl.arguments import (
    named as named_columns,
)
from penstock.dsl.async_functions import async_spec
from penstock.dsl.job import Job
from penstock.dsl.join_verbs import Joins, check_streams
from penstock.dsl.keyed_stream import KeyedStream, WindowedStream
from penstock.dsl.pictures import Picture
from penstock.dsl.sinks import Writes
from penstock.model import name_hints
from penstock.model.aggregates import AggregateCall
from penstock.model.config import check_count, check_on_error
from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import SchemaError
from penstock.model.expressions import Expr, col
from penstock.model.ids import OperatorId
from penstock.model.job_graph import (
    MAIN,
    BatchFunctionSpec,
    FilterSpec,
    Input,
    OperatorSpec,
    ProjectSpec,
    RowFunctionSpec,
    SplitSpec,
    TimeSpec,
    UnionSpec,
)
from penstock.model.keyed_specs import FirstSpec
from penstock.model.name_hints import NameHints
from penstock.model.option_literals import BatchFormat, OnError
from penstock.model.schema import Fields, StreamSchema, check_names, to_arrow_schema
from penstock.model.source_location import user_location
from penstock.model.windows import Window, Windowing


class Stream(Writes, Picture, Joins, NameHints):
    """An output of an operator. Immutable: methods return new streams."""

    _hints = name_hints.STREAM
    _noun = "a stream"

    def __init__(self, job: Job, operator: OperatorId, output: str = MAIN, exchange: str | None = None) -> None:
        """Refer to an output; users get streams from readers and from other streams."""
        self.job = job
        self._operator = operator
        self._output = output
        self._exchange = exchange

    @property
    def schema(self) -> pa.Schema:
        """The columns of the stream."""
        return self._schema.fields

    @property
    def updating(self) -> bool:
        """True if rows may be retracted later (a changelog)."""
        return self._schema.changelog

    @property
    def _schema(self) -> StreamSchema:
        return self.job.graph[self._operator].outputs[self._output]

    def name(self, name: str) -> "Stream":
        """Give the last operator its stable identity, by which state is found again after a restart."""
        self.job.change(self._operator, name=name, named=True)
        return self

    def parallelism(self, instances: int) -> "Stream":
        """Run the last operator in this many instances.

        Raises:
            OptionError: it is below 1.
        """
        check_count("parallelism", instances)
        self.job.change(self._operator, parallelism=instances)
        return self

    def resources(self, *, num_gpus: float = 0, custom: Mapping[str, float] | None = None) -> "Stream":
        """Run the last operator only where each instance has so many GPUs, and of ``custom`` resources so much.

        The names of those are the ones that the nodes of a Ray cluster were started with. Whatever is in one task with
        the operator runs there as well. Only task managers on Ray can have any of it.

        Raises:
            OptionError: an amount is not above 0, or above 1 and not whole.
        """
        self.job.change(self._operator, resources=check_resources(num_gpus, custom))
        return self

    def rebalance(self) -> "Stream":
        """Deal batches out evenly to the instances of the next operator."""
        return Stream(self.job, self._operator, self._output, "rebalance")

    def broadcast(self) -> "Stream":
        """Send every row to every instance of the next operator."""
        return Stream(self.job, self._operator, self._output, "broadcast")

    def filter(self, condition: Expr | Callable[..., Any], *, on_error: OnError = "dead_letter") -> "Stream":
        """Keep the rows for which an expression, or a function of the row, is true."""
        if isinstance(condition, Expr):
            return self._add(FilterSpec(condition), "filter")
        check_condition("filter", condition, function=True)
        columns = self._columns_of(condition)
        spec = RowFunctionSpec("filter", condition, self.schema, columns, check_on_error(on_error, "filter"))
        return self._add(spec, "filter")

    def map(
        self, function: Callable[..., Any], schema: Fields | None = None, *, on_error: OnError = "dead_letter"
    ) -> "Stream":
        """Call a function for every row; it takes a dict and returns a dict or a dataclass.

        A function whose parameters are all named like columns gets just these columns. ``schema`` describes what it
        returns; without it, the return annotation if that is a dataclass, else the stream's own.

        The result keeps event time if it has the time column in its type. The function may change the times; rows it
        dates before the watermark that has already passed are late for the operators behind it, and counted there.
        """
        return self._add(self._row_function("map", function, schema, on_error), "map")

    def flat_map(
        self, function: Callable[..., Any], schema: Fields | None = None, *, on_error: OnError = "dead_letter"
    ) -> "Stream":
        """Call a function for every row that returns any number of rows; otherwise, event time too, like `map`."""
        return self._add(self._row_function("flat_map", function, schema, on_error), "flat_map")

    def map_batches(
        self,
        function: Callable[[Any], Any],
        schema: Fields | None = None,
        *,
        format: BatchFormat = "pyarrow",
        on_error: OnError = "dead_letter",
    ) -> "Stream":
        """Call a function for every batch, given as ``pyarrow``, ``polars``, ``pandas`` or ``numpy`` (dict of arrays).

        It returns anything with the Arrow PyCapsule interface, or a dict of columns. ``schema`` describes the result;
        without it, the stream's own. Event time is kept as by `map`.
        """
        check_function("map_batches", function)
        fields = self.schema if schema is None else to_arrow_schema(schema)
        spec = BatchFunctionSpec(function, fields, format, check_on_error(on_error, "map_batches"))
        return self._add(spec, "map_batches")

    def select(self, *columns: Column, **named: Column) -> "Stream":
        """Keep these columns and no others; ``total=col("price") * 2`` computes new ones."""
        return self._project(named_columns("select", columns) + keywords(named), "select")

    def with_columns(self, *columns: Expr, **named: Column) -> "Stream":
        """Add columns, or replace those of the same name."""
        added = dict(named_columns("with_columns", columns) + keywords(named))
        kept = [(name, added.pop(name, col(name))) for name in self.schema.names]
        return self._project([*kept, *added.items()], "with_columns")

    def drop(self, *names: str) -> "Stream":
        """Remove columns."""
        check_names(names, self.schema.names, "drop()")
        return self._project([(name, col(name)) for name in self.schema.names if name not in names], "drop")

    def rename(self, names: Mapping[str, str] | None = None, **named: str) -> "Stream":
        """Rename columns, old name to new name."""
        renamed = {**(names or {}), **named}
        check_names(renamed, self.schema.names, "rename()")
        return self._project([(renamed.get(name, name), col(name)) for name in self.schema.names], "rename")

    def union(self, *others: "Stream") -> "Stream":
        """Merge with streams of the same columns."""
        check_streams("union", others)
        return self._add(UnionSpec(), "union", *others)

    def split(self, **conditions: Expr) -> dict[str, "Stream"]:
        """Send every row to the first output whose condition is true; the others are in output ``rest``."""
        if "rest" in conditions:
            raise refusal("the output 'rest' of split() takes what no condition wants; name yours otherwise")
        for condition in conditions.values():
            check_condition("split", condition)
        stream = self._add(SplitSpec(tuple(conditions.items())), "split")
        return {"rest": stream, **{name: stream.side_output(name) for name in conditions}}

    def side_output(self, name: str) -> "Stream":
        """Return another output of the last operator, for example the ``"late"`` rows of a window.

        ``"dead_letter"`` has the records it could not read or process, with the columns operator, position, error,
        traceback, text and raw_base64; once it is read, they go there and not to the job's file.

        Raises:
            PlanError: there is no such output; the message lists them.
        """
        outputs = self.job.graph[self._operator].outputs
        if name not in outputs:
            raise refusal(f"{self._operator!r} has no output {name!r}; it has {', '.join(outputs)}")
        return Stream(self.job, self._operator, name)

    def key_by(self, *columns: Column, **named: Column) -> "KeyedStream":
        """Group by columns or expressions, for `window`, `agg` and `reduce`."""
        keys = named_columns("key_by", columns) + keywords(named)
        if not keys:
            raise refusal("key_by() needs at least one column; without a key, call window() or agg() directly")
        return KeyedStream(self, tuple(keys))

    def window(self, window: Windowing | Window) -> "WindowedStream":
        """Group all rows by a window, without a key."""
        return KeyedStream(self, ()).window(window)

    def agg(self, **aggregates: AggregateCall) -> "Stream":
        """Aggregate all rows; the result is updating."""
        return KeyedStream(self, ()).agg(**aggregates)

    def top(self, rows: int, by: Order | Sequence[Order], *, rank: str | None = None) -> "Stream":
        """Keep the first rows of the whole stream by an order; see `KeyedStream.top`. The result is updating."""
        return KeyedStream(self, ()).top(rows, by, rank=rank)

    def distinct(self, *columns: Column) -> "Stream":
        """Keep each different row, or combination of these columns, once.

        Append-only input gives append-only output: a row leaves as soon as it is new.
        """
        named = named_columns("distinct", columns or self.schema.names)
        if self.updating:
            return KeyedStream(self, tuple(named)).agg()
        return self._project(named, "distinct")._add(
            FirstSpec(tuple((name, col(name)) for name, _ in named), True), "distinct"
        )

    def event_time(self, column: str, delay: Duration = 0) -> "Stream":
        """Take another timestamp column as event time, for example when an auction ends instead of when it began.

        The watermark stays what it is, less ``delay``: rows whose new time is before it are late.

        Raises:
            PlanError: there is no such column, it is no timestamp, or the stream has no watermarks.
        """
        return self._add(TimeSpec(column, to_microseconds(delay, "delay")), "event_time")

    def map_async(
        self,
        function: Callable[..., Any],
        schema: Fields | None = None,
        *,
        capacity: int = 1_000,
        ordered: bool = True,
        timeout: Duration = "10s",
        retries: int = 0,
        on_error: OnError = "dead_letter",
    ) -> "Stream":
        """Call an async function for every row, many at a time, on a thread of their own; otherwise like `map`.

        At most ``capacity`` rows wait for answers; beyond that the stream waits. ``ordered``: results leave in the
        order of their rows, else as they come, though never across a watermark. A call that fails or takes longer
        than ``timeout`` is made again up to ``retries`` times, then its row is a bad record.

        Raises:
            PlanError: it is no async function.
            OptionError: ``capacity`` is below 1, or ``retries`` negative.
        """
        plain = self._row_function("map_async", function, schema, on_error)
        spec = async_spec(plain, capacity, ordered, timeout, retries)
        return self._add(spec, "map_async")

    def _time(self, verb: str) -> Expr:
        """Return the event time column, which ``verb`` needs.

        Raises:
            PlanError: the stream has none.
        """
        time = self._schema.time
        if time is None:
            raise refusal(f"{verb} needs event time, but the stream has none; declare it at the source with time=...")
        return col(time.name)

    def _row_function(
        self, kind: str, function: Callable[..., Any], schema: Fields | None, on_error: OnError
    ) -> RowFunctionSpec:
        check_function(kind, function)
        if schema is None:
            annotation = return_annotation(function)
            fields = self.schema if annotation is None else to_arrow_schema(annotation)
        else:
            fields = to_arrow_schema(schema)
        return RowFunctionSpec(kind, function, fields, self._columns_of(function), check_on_error(on_error, kind))

    def _columns_of(self, function: Callable[..., Any]) -> tuple[str, ...] | None:
        """Return the columns a function's parameters name, None when it takes the row as a dict."""
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            return None
        plain = [item for item in parameters if item.default is inspect.Parameter.empty]
        if any(item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD) for item in plain):
            return None
        names = tuple(item.name for item in plain)
        by_position = all(item.kind is not item.KEYWORD_ONLY for item in plain)
        if by_position and names and all(name in self.schema.names for name in names):
            return names
        if by_position and len(names) == 1:
            return None
        raise SchemaError(
            f"function {getattr(function, '__name__', 'lambda')!r} takes ({', '.join(names)}); it must take the row as "
            f"one dict, or parameters named like columns: {', '.join(self.schema.names)} (at {user_location()})"
        )

    def _project(self, columns: Sequence[tuple[str, Expr]], kind: str) -> "Stream":
        if not columns:
            raise refusal(f"{kind}() leaves no column")
        return self._add(ProjectSpec(tuple(columns)), kind)

    def _add(self, spec: OperatorSpec, kind: str, *others: "Stream") -> "Stream":
        for other in others:
            if other.job is not self.job:
                raise refusal(f"{kind}() brings together streams of two jobs; read both in the same Job")
        inputs = [stream._input() for stream in (self, *others)]
        return Stream(self.job, self.job.add(spec, inputs, kind=kind))

    def _input(self) -> Input:
        return Input(self._operator, self._output, exchange=self._exchange)
