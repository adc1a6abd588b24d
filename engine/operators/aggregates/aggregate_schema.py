"""The plan and output schema of an aggregate, checked when the pipeline is built.

The descriptor and the aggregate operators call it; the operators compute nothing that is not fixed here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.accumulators.aggregation import Aggregation
from penstock.engine.accumulators.estimates import Sample
from penstock.engine.core.event_time import bounds_type, time_type
from penstock.engine.expressions.compiler import infer_type
from penstock.engine.operators.aggregates.estimate_schema import estimate_fields
from penstock.model.errors import ExpressionError, PlanError
from penstock.model.expressions import Expr
from penstock.model.job_graph import AggregateSpec
from penstock.model.result_columns import BUCKET, DRAW
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Count, Global, Hopping, Session, Tumbling, Window, Windowing
from penstock.state.keys.batch_keys import KeyCodec

WINDOW_COLUMNS = ("window_start", "window_end")
"""What windowed results carry between their keys and their aggregates."""

_BY_TIME = ("first", "last")


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """A checked aggregate: its key types, aggregates, result and (with bounded windows) the type of window bounds.

    ``timed`` says that aggregates look at rows' event times, ``retracting`` that rows can be taken back.
    """

    key_types: tuple[pa.DataType, ...]
    aggregation: Aggregation
    bounds: pa.TimestampType | None
    output: StreamSchema
    timed: bool
    retracting: bool

    def rows(self, grouped: Sequence[pa.Array], results: Sequence[pa.Array]) -> pa.RecordBatch:
        """Put result rows together: keys and bounds by which rows are ``grouped``, then what was computed of them."""
        return pa.RecordBatch.from_arrays([*grouped, *results], schema=self.output.fields)


def plan_aggregate(spec: AggregateSpec, schema: StreamSchema, name: str) -> AggregatePlan:
    """Check an aggregate against its input; its output has keys, `WINDOW_COLUMNS` with a window, and aggregates.

    With ``estimates`` come, for each aggregate that can have an interval, its low and high end and whether that is
    certified; then accuracy and biased (`model.result_columns`).

    A final window in event time gives an append-only stream whose event time is the window's last microsecond; a
    final window in processing time has none, nor has a `Global` window, which has no bounds to show either. Everything
    else is a changelog without event time.

    Raises:
        PlanError: the aggregate cannot be built over this input; the message names the operator.
    """
    bounds = None if spec.windowing is None else window_bounds_type(spec.windowing, schema, name)
    key_types = tuple(_key_type(column, key, schema, name) for column, key in spec.keys)
    aggregation = _aggregation(spec, schema, name)
    final = _is_final(spec, name)
    shown = () if bounds is None else WINDOW_COLUMNS
    _check_names([column for column, _ in spec.keys], shown, aggregation.names, name)
    fields = [pa.field(column, kind) for (column, _), kind in zip(spec.keys, key_types, strict=True)]
    fields += [pa.field(column, bounds, nullable=False) for column in shown]
    fields += aggregation.fields()
    if spec.estimates:
        fields += estimate_fields(spec, aggregation.fields())
    event = final and bounds is not None and spec.windowing is not None and spec.windowing.clock == "event"
    time = TimeColumn(WINDOW_COLUMNS[1], -1) if event else None
    output = StreamSchema(pa.schema(fields), time, changelog=not final)
    by_time = any(call.function in _BY_TIME for call in aggregation.calls)
    return AggregatePlan(key_types, aggregation, bounds, output, by_time, schema.changelog)


def window_bounds_type(windowing: Windowing, schema: StreamSchema, name: str) -> pa.TimestampType | None:
    """Return the type of window bounds: the time column's, or microseconds where its unit is too coarse.

    None for a `Global` window, which has no bounds.

    Raises:
        PlanError: the window needs event time and the input has none, or it cannot take retractions.
    """
    window = windowing.window
    if schema.changelog and isinstance(window, Session | Count):
        raise PlanError(
            f"{name!r} puts an updating stream into {window} windows, which a retracted row would tear apart; "
            "use tumbling or hopping windows, or a final result upstream"
        )
    if isinstance(window, Global):
        return None
    if windowing.clock == "processing":
        return pa.timestamp("us", "UTC")
    kind = time_type(schema, name)
    row_offset_us = 0 if schema.time is None else schema.time.offset_us
    return bounds_type(kind, *_bounds_are_multiples_of(window, row_offset_us))


def _bounds_are_multiples_of(window: Window, row_offset_us: int) -> tuple[int | None, ...]:
    if isinstance(window, Tumbling):
        return window.size_us, window.offset_us
    if isinstance(window, Hopping):
        return window.size_us, window.hop_us, window.offset_us
    if isinstance(window, Session):
        return window.gap_us, row_offset_us
    if isinstance(window, Count):
        return (row_offset_us,)
    return (None,)


def _is_final(spec: AggregateSpec, name: str) -> bool:
    if spec.windowing is not None:
        return spec.windowing.emission.mode == "final"
    if spec.emission.mode == "final":
        raise PlanError(
            f"{name!r} has no window, so its result is never final; add .window(...), or leave the emission at updates"
        )
    return False


def _key_type(column: str, key: Expr, schema: StreamSchema, name: str) -> pa.DataType:
    kind = infer_type(key, schema.fields, name)
    try:
        KeyCodec([kind])
    except PlanError as error:
        raise PlanError(f"{name!r} cannot group by {column!r}: {error}") from error
    return kind


def _aggregation(spec: AggregateSpec, schema: StreamSchema, name: str) -> Aggregation:
    if not spec.aggregates and not spec.keys:
        raise PlanError(f"{name!r} has nothing to compute; give .agg(...) at least one aggregate, such as n=count()")
    input_types = []
    for column, call in spec.aggregates:
        input_types.append([infer_type(value, schema.fields, name) for value in call.inputs])
        if call.where is not None:
            kind = infer_type(call.where, schema.fields, name)
            if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
                raise ExpressionError(
                    f"the filter of {column!r} in {name!r} must be a condition (true or false), but it is {kind}"
                )
        if call.function in _BY_TIME:
            if schema.time is None:
                raise PlanError(
                    f"{column!r} in {name!r} takes the {call.function} row by event time, but its input has none; "
                    f"declare it at the source with time=..., or use arg_{'min' if call.function == 'first' else 'max'}"
                )
            time_type(schema, name)
    names = [column for column, _ in spec.aggregates]
    calls = [call for _, call in spec.aggregates]
    return Aggregation(
        name,
        names,
        calls,
        input_types,
        updating=schema.changelog,
        sample=_sample(spec, schema),
        confidence=spec.confidence,
    )


def _sample(spec: AggregateSpec, schema: StreamSchema) -> Sample:
    """Return what results tell of shed rows: where windows follow from rows, values stay those of the kept rows."""
    if not spec.estimates:
        return Sample.UNKNOWN
    from_rows = spec.windowing is not None and isinstance(spec.windowing.window, Session | Count)
    if from_rows:
        return Sample.MEASURED
    names = schema.fields.names
    return Sample.OF_KEYS if BUCKET in names else Sample.OF_STRATA if DRAW in names else Sample.ESTIMATED


def _check_names(keys: list[str], shown: tuple[str, ...], aggregates: tuple[str, ...], name: str) -> None:
    columns = [*keys, *shown, *aggregates]
    repeated = [column for column in columns if columns.count(column) > 1]
    if not repeated:
        return
    if repeated[0] in shown:
        raise PlanError(
            f"{name!r} has a key or aggregate called {repeated[0]!r}, which is a column of windowed results; rename it"
        )
    raise PlanError(f"{name!r} puts out two columns called {repeated[0]!r}; every key and aggregate needs its own name")
