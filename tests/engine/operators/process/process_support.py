"""What the tests of process functions share: operators on rows of (k, at, x), and steps made of rows."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from penstock.dsl.process import process_spec
from penstock.engine.operators.process.process import Process
from penstock.model.expressions import col
from penstock.model.keyed_specs import ProcessSpec
from penstock.model.schema import Fields, StreamSchema, TimeColumn
from tests.engine.restarts import Restarting, locate_by
from tests.engine.support import ManualClock, open_operator

FIELDS = pa.schema({"k": pa.string(), "at": pa.timestamp("us"), "x": pa.int64()})
EPOCH = datetime(1970, 1, 1)
S = 1_000_000
OWN = ("clock", "batch_rows", "budget_bytes")

Row = tuple[str | None, int, int | None]
"""Key, event time in seconds, x."""


def spec_of(
    function: Any,
    schema: Fields | None = None,
    *,
    state: Mapping[str, Any] | None = None,
    order: str = "event",
    fields: pa.Schema = FIELDS,
) -> ProcessSpec:
    """Return the spec of a function keyed by ``k``."""
    return process_spec((("k", col("k")),), fields, function, schema, state, order, "dead_letter")


def opened(function: Any, schema: Fields | None = None, *, timed: bool = True, **options: Any) -> Process:
    """Open an operator; ``clock`` and ``batch_rows`` are the operator's, all else the spec's."""
    own = {name: options.pop(name) for name in OWN if name in options}
    stream = StreamSchema(options.get("fields", FIELDS), TimeColumn("at") if timed else None)
    return open_operator(Process(spec_of(function, schema, **options), stream, "op"), **own)


def restarting(
    function: Any, schema: Fields | None = None, *, cuts: Iterable[str], timed: bool = True, **options: Any
) -> Restarting:
    """Open one as `opened` does that is restarted so."""
    own = {name: options.pop(name) for name in OWN if name in options}
    stream = StreamSchema(options.get("fields", FIELDS), TimeColumn("at") if timed else None)
    spec = spec_of(function, schema, **options)
    return open_operator(Restarting(lambda: Process(spec, stream, "op"), cuts, [locate_by("k")]), **own)


def instances(operator: Restarting) -> list[Process]:
    """Return what runs in it now."""
    return [inner for inner in operator._inner if isinstance(inner, Process)]


def peek_state(operator: Restarting, name: str) -> dict[Any, Any]:
    """Return what a state holds in all instances."""
    return {key: value for inner in instances(operator) for key, value in inner.peek_state(name).items()}


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows as a batch."""
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    times = pa.array([at(seconds) for seconds in columns[1]], pa.timestamp("us"))
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[0], pa.string()), times, pa.array(columns[2], pa.int64())], schema=FIELDS
    )


def at(seconds: float) -> datetime:
    """Return a point in time so long after the epoch."""
    return EPOCH + timedelta(seconds=seconds)


def seconds(time: datetime) -> float:
    """Undo `at`."""
    return (time - EPOCH).total_seconds()


def clock_at(seconds: float) -> ManualClock:
    """Return a clock that stands there."""
    return ManualClock(wall_us=round(seconds * S))
