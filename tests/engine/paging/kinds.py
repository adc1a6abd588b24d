"""Every kind of keyed operator over one stream in a test's hands, with the rows to feed it.

`KINDS` are made by name; their inputs are rows of `FIELDS` keyed by ``k``, or changes of such rows.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.engine.core.contract import Operator
from penstock.engine.core.elements import Batch
from penstock.engine.operators.registry import make_operator
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import Ordering, col
from penstock.model.job_graph import AggregateSpec, ReduceSpec
from penstock.model.join_specs import AsOfJoinSpec, IntervalJoinSpec, JoinSpec
from penstock.model.keyed_specs import FirstSpec, OverSpec, TopSpec
from penstock.model.schema import WEIGHT, StreamSchema, TimeColumn
from penstock.model.windows import Count, Emission, Global, Hopping, Session, Tumbling, Windowing
from tests.engine.operators.aggregates.aggregate_support import SevenAndTwenty
from tests.engine.operators.process.process_support import spec_of as process_spec_of

FIELDS = pa.schema([("k", pa.string()), ("at", pa.timestamp("us")), ("x", pa.int64()), ("s", pa.string())])
ROWS = StreamSchema(FIELDS, TimeColumn("at"))
CHANGES = StreamSchema(FIELDS, TimeColumn("at"), changelog=True)

Row = tuple[str | None, int, int | None, str]

KEY = (("k", col("k")),)
BY = (col("k"),)
CALLS = (
    ("n", AggregateCall("count")),
    ("total", AggregateCall("sum", (col("x"),))),
    ("text", AggregateCall("max", (col("s"),))),
    ("kinds", AggregateCall("count_distinct", (col("s"),))),
)
PAIR = (("k", 0, "k"), ("x", 0, "x"), ("y", 1, "x"), ("s", 1, "s"))
NAMES = [None, *(f"key {number}" for number in range(40))]


@dataclass(frozen=True)
class Kind:
    """An operator: how it is made, its inputs, and what of its results does not depend on when rows were looked at."""

    make: Callable[[], Operator]
    inputs: tuple[StreamSchema, ...] = (ROWS,)
    shown: Callable[[Counter[Any]], Counter[Any]] = lambda results: results
    time: str | None = None
    """The column of the results that holds their event time."""
    sampled: bool = False
    """Whether rows at odd times stand for two each."""

    def parts(self, batch: pa.RecordBatch) -> Iterator[Batch]:
        """Yield a batch as an instance gets it: of one keep rate at a time."""
        if not self.sampled:
            yield Batch(batch, ingest_ns=1)
            return
        odd = batch.column("at").cast(pa.int64()).to_numpy() % 2 == 1
        for keep, rows in ((1.0, ~odd), (0.5, odd)):
            if rows.any():
                yield Batch(batch.filter(pa.array(rows)), keep, ingest_ns=1)


def plus(one: Any, other: Any) -> Any:
    """Fold rows; minds their order."""
    x = ((one["x"] or 0) * 31 + (other["x"] or 0)) % 1_000_003
    return {"k": one["k"], "at": max(one["at"], other["at"]), "x": x, "s": max(one["s"], other["s"])}


class Machine(ps.Process):
    """Uses every kind of state, and timers in event time."""

    count = ps.value_state(int, default=0)
    log = ps.list_state(int)
    seen = ps.map_state(str, int)
    most = ps.reducing_state(int, max)
    brief = ps.value_state(int, ttl="3us")
    trail = ps.list_state(int, ttl="8us")
    lately = ps.map_state(int, int, ttl="8us")

    def process(self, row: Any, context: Any) -> Any:
        """Keep the row in every way, and ask for a timer."""
        x = row["x"] or 0
        self.count.set(self.count.get() + 1)
        self.log.append(x)
        self.most.add(x)
        self.trail.append(x)
        shown = (self.count.get(), self.most.get(), self.brief.get(), self.trail.get(), self.lately.items())
        self.brief.set(x)
        self.lately.put(x, x + 1)
        self.seen.put(row["s"], x)
        if x > 2:
            context.timers.after(f"{x}us")
        yield {"k": context.key, "what": f"{x} {shown} {self.seen.items()}"}

    def on_timer(self, timer: Any, context: Any) -> Any:
        """Say what was kept, and forget some of it."""
        what = f"timer {timer.time} {self.count.get()} {self.log.get()} {self.brief.get()}"
        self.log.clear()
        return {"k": context.key, "what": what}


class Alarms(ps.Process):
    """Takes rows as they come, and counts them up at a processing time."""

    count = ps.value_state(int, default=0)

    def process(self, row: Any, context: Any) -> None:
        """Count, and ask to be called."""
        self.count.set(self.count.get() + 1)
        context.timers.after_processing("2s")

    def on_timer(self, timer: Any, context: Any) -> Any:
        """Give back what was counted."""
        count = self.count.get()
        self.count.set(0)
        return {"k": context.key, "what": str(count)}


OUT = {"k": str, "what": str}


def batch_of(rows: Sequence[Row], weights: Sequence[int] | None = None) -> pa.RecordBatch:
    """Return rows as a batch of `ROWS`, or of `CHANGES` with weights."""
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, FIELDS, strict=True)]
    if weights is None:
        return pa.RecordBatch.from_arrays(arrays, schema=FIELDS)
    return pa.RecordBatch.from_arrays([*arrays, pa.array(weights, pa.int8())], schema=CHANGES.physical)


def _of(spec: Any, *inputs: StreamSchema, **options: Any) -> Kind:
    inputs = inputs or (ROWS,)
    return Kind(lambda: make_operator(spec, inputs, "op"), inputs, **options)


def _windows(window: Any, mode: str = "final", **options: Any) -> AggregateSpec:
    return AggregateSpec(KEY, CALLS, Windowing(window, emission=Emission(mode, 1_000_000), **options))


def _reduce(window: Any = None, mode: str = "final") -> ReduceSpec:
    return ReduceSpec(KEY, plus, None if window is None else Windowing(window, emission=Emission(mode, 1_000_000)))


def _process(function: Any, **options: Any) -> Any:
    return process_spec_of(function, OUT, fields=FIELDS, **options)


def _sums(column: int) -> Callable[[Counter[Any]], Counter[Any]]:
    """Return what adds a column up by key: where processing time cuts does not matter then."""

    def shown(results: Counter[Any]) -> Counter[Any]:
        sums: Counter[Any] = Counter()
        for row, weight in results.items():
            sums[row[0]] += int(row[column]) * weight
        return sums

    return shown


ORDER = (Ordering(col("x"), True), Ordering(col("at"), False))
GROUPED = AggregateSpec(KEY, CALLS, None, Emission("updates", 1_000_000))
OVER = (("n", AggregateCall("count")), ("total", AggregateCall("sum", (col("x"),))))

KINDS: dict[str, Kind] = {
    "group": _of(GROUPED),
    "group of changes": _of(GROUPED, CHANGES),
    "tumbling": _of(_windows(Tumbling(10)), time="window_end"),
    "hopping, of a sample": replace(
        _of(replace(_windows(Hopping(12, 4), lateness_us=6), estimates=True), time="window_end"), sampled=True
    ),
    "hopping, late": _of(_windows(Hopping(12, 4), lateness_us=6), time="window_end"),
    "session": _of(_windows(Session(4)), time="window_end"),
    "count": _of(_windows(Count(3)), time="window_end"),
    "custom": _of(_windows(SevenAndTwenty())),
    "global": _of(_windows(Global())),
    "tumbling updates": _of(_windows(Tumbling(10), "updates")),
    "session updates": _of(_windows(Session(4), "updates")),
    "count updates": _of(_windows(Count(3), "updates")),
    "tumbling by clock": _of(_windows(Tumbling(1_000_000), clock="processing"), shown=_sums(3)),
    "reduce": _of(_reduce()),
    "reduce tumbling": _of(_reduce(Tumbling(10)), time="window_end"),
    "reduce count updates": _of(_reduce(Count(3), "updates")),
    "inner join": _of(JoinSpec(BY, BY, PAIR), ROWS, ROWS),
    "left join": _of(JoinSpec(BY, BY, PAIR, None, "left"), ROWS, ROWS),
    "full join of changes": _of(JoinSpec(BY, BY, PAIR, None, "full"), CHANGES, CHANGES),
    "window join": _of(JoinSpec(BY, BY, PAIR, Windowing(Tumbling(10))), ROWS, ROWS),
    "interval join": _of(IntervalJoinSpec(BY, BY, (*PAIR, ("at", 0, "at")), -4, 6, "full"), ROWS, ROWS),
    "as-of join": _of(AsOfJoinSpec(BY, BY, (*PAIR, ("at", 0, "at")), 12, "left"), ROWS, ROWS, time="at"),
    "top": _of(TopSpec(KEY, 2, ORDER, "rank", False)),
    "top of changes": _of(TopSpec(KEY, 2, ORDER, None, False), CHANGES),
    "first": _of(FirstSpec(KEY, False, 7), time="at"),
    "first by arrival": _of(FirstSpec(KEY, True, None)),
    "over": _of(OverSpec(KEY, OVER, 3, 0), time="at"),
    "over updates": _of(OverSpec(KEY, OVER, None, 1_000_000), CHANGES),
    "process": _of(_process(Machine)),
    "process by clock": _of(_process(Alarms, order="arrival"), shown=_sums(1)),
}


def rows_of(rng: random.Random, count: int, delay: int = 8) -> list[Row]:
    """Draw rows whose times run ahead of each other by up to ``delay``, and now and then far."""
    front, rows = 0, []
    for _ in range(count):
        front += rng.choice([0, 0, 1, 1, 2, 15])
        text = rng.choice(["", "a", "b", "longer than what lies inline in a cell"])
        rows.append((rng.choice(NAMES), front - rng.randint(0, delay), rng.choice([None, 0, 1, 2, 5, 9]), text))
    return rows


def changes_of(rng: random.Random, count: int) -> list[tuple[Row, int]]:
    """Draw changes: rows, of which some are taken back some time later."""
    present: list[Row] = []
    changes = []
    for row in rows_of(rng, count):
        if present and rng.random() < 0.3:
            changes.append((present.pop(rng.randrange(len(present))), -1))
        changes.append((row, 1))
        present.append(row)
    return changes


def plain(rows: pa.RecordBatch) -> Counter[Any]:
    """Return rows as tuples with their weights."""
    counted: Counter[Any] = Counter()
    weights = rows.column(WEIGHT).to_pylist() if WEIGHT in rows.schema.names else np.ones(rows.num_rows, int).tolist()
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
        if name != WEIGHT
    ]
    for values, weight in zip(zip(*columns, strict=True), weights, strict=True):
        counted[values] += weight
    return counted
