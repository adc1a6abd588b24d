"""The plan and output schema of a reduce, checked when the pipeline is built."""

from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.core.event_time import time_type
from penstock.engine.expressions.compiler import infer_type
from penstock.engine.operators.aggregates.aggregate_schema import WINDOW_COLUMNS, window_bounds_type
from penstock.model.errors import PlanError
from penstock.model.expressions import column_name
from penstock.model.job_graph import ReduceSpec
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.state.keys.batch_keys import KeyCodec


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """A checked reduce.

    ``fields`` are the input's, which a reduced row has too; ``bounds`` is the type of window bounds (None: there are
    none to show); ``output`` has a column for every key, for the bounds and for every field. ``interval_us`` is the
    least processing time between two emissions of updates.
    """

    key_names: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    fields: pa.Schema
    time: TimeColumn
    bounds: pa.TimestampType | None
    output: StreamSchema
    interval_us: int | None

    def result(self, keys: list[pa.Array], bounds: list[pa.Array], reduced: pa.RecordBatch) -> pa.RecordBatch:
        """Put the parts of result rows together: keys by position, window_start and window_end if shown, fields.

        A key that is a column of the input replaces what the function made of it.
        """
        columns = dict(zip(reduced.schema.names, reduced.columns, strict=True))
        columns.update(zip(self.key_names, keys, strict=True))
        if self.bounds is not None:
            columns.update(zip(WINDOW_COLUMNS, bounds, strict=True))
        fields = self.output.fields
        return pa.RecordBatch.from_arrays([columns[field.name] for field in fields], schema=fields)


def plan_reduce(spec: ReduceSpec, schema: StreamSchema, name: str) -> ReducePlan:
    """Check a reduce; its output has keys that are no columns of the input, bounds with a window, the input's fields.

    Without a window it is a changelog of each key's latest row, with updates one of each window's. A final window's
    result is append-only, and its event time is the window's last microsecond (a `Global` window has neither bounds
    nor event time).

    Raises:
        PlanError: the input is updating or has no event time, a key cannot be one, a name is taken twice, or the
            windowing is not in event time.
    """
    if schema.changelog:
        raise PlanError(
            f"{name!r} reduces an updating stream, whose rows a function cannot take back; use a final window upstream"
        )
    time_type(schema, name)
    assert schema.time is not None
    _check_emission(spec, name)
    bounds = None if spec.windowing is None else window_bounds_type(spec.windowing, schema, name)
    key_types = []
    for column, key in spec.keys:
        key_types.append(infer_type(key, schema.fields, name))
        if column in schema.fields.names and column_name(key) != column:
            raise PlanError(
                f"{name!r} has a key called {column!r}, but reduced rows have the input's column of that name; rename"
            )
    KeyCodec(key_types)
    key_names = [column for column, _ in spec.keys]
    taken = [column for column in WINDOW_COLUMNS if column in (*key_names, *schema.fields.names)]
    if bounds is not None and taken:
        raise PlanError(
            f"{name!r} adds a column {taken[0]!r} to reduced rows, which have one already; rename or drop it before"
        )
    fields = [
        pa.field(column, kind)
        for column, kind in zip(key_names, key_types, strict=True)
        if column not in schema.fields.names
    ]
    if bounds is not None:
        fields += [pa.field(column, bounds, nullable=False) for column in WINDOW_COLUMNS]
    emission = spec.emission if spec.windowing is None else spec.windowing.emission
    updating = emission.mode == "updates"
    time = None if bounds is None or updating else TimeColumn(WINDOW_COLUMNS[1], -1)
    output = StreamSchema(pa.schema([*fields, *schema.fields]), time, changelog=updating)
    return ReducePlan(
        tuple(key_names), tuple(key_types), schema.fields, schema.time, bounds, output, emission.interval_us
    )


def _check_emission(spec: ReduceSpec, name: str) -> None:
    if spec.windowing is None:
        if spec.emission.mode == "final":
            raise PlanError(
                f"{name!r} has no window, so its result is never final; add .window(...), or leave the emission "
                "at updates"
            )
        return
    if spec.windowing.clock != "event":
        raise PlanError(f"{name!r} folds rows in the order of event time; leave out clock={spec.windowing.clock!r}")
