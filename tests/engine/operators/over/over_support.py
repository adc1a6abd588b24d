"""What the tests of running and row-window aggregates share: a stream, ways to cut it, and frames, row by row."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.engine.core.contract import Operator
from penstock.engine.expressions.compiler import compile_projection
from penstock.engine.operators.over.over import Over
from penstock.engine.operators.over.updates import UpdatingOver
from penstock.model.aggregates import AggregateCall, UserAggregate
from penstock.model.expressions import col
from penstock.model.job_graph import MAIN
from penstock.model.keyed_specs import OverSpec
from penstock.model.schema import WEIGHT, StreamSchema, TimeColumn
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import Locate, Positions
from penstock.state.tables.image import positions_of
from tests.engine.restarts import Restarting
from tests.engine.support import Collected, open_operator

Row = dict[str, Any]

FIELDS = pa.schema(
    [("at", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64()), ("x", pa.float64()), ("s", pa.string())]
)
INPUT = StreamSchema(FIELDS, TimeColumn("at"))
CHANGELOG = StreamSchema(FIELDS, TimeColumn("at"), changelog=True)
KEYS = {(): (), ("k",): (("k", col("k")),), ("k", "odd"): (("k", col("k")), ("odd", col("v") % 2))}

rows_drawn = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(0, 12),
            "k": st.one_of(st.none(), st.sampled_from("ab")),
            "v": st.one_of(st.none(), st.integers(-3, 3)),
            "x": st.one_of(st.none(), st.sampled_from([0.5, 1.5, -2.0, 1e15])),
            "s": st.one_of(st.none(), st.sampled_from(["", "p", "qq"])),
        }
    ),
    max_size=40,
)


class Total(UserAggregate):
    """A sum that cannot take rows back."""

    state = MappingProxyType({"total": np.int64})
    result_type = int

    def update(self, state: Any, groups: Any, values: Any) -> None:
        np.add.at(state["total"], groups, values[0].to_numpy(zero_copy_only=False))

    def merge(self, state: Any, groups: Any, other: Any, other_groups: Any) -> None:
        np.add.at(state["total"], groups, other["total"][other_groups])

    def result(self, state: Any, groups: Any) -> Any:
        return state["total"][groups]


def _of(name: str, fold: Callable[[list[Any]], Any]) -> Callable[[list[Row]], Any]:
    def apply(frame: list[Row]) -> Any:
        values = [row[name] for row in frame if row[name] is not None]
        return fold(values) if values else None

    return apply


def _variance(values: list[Any]) -> float | None:
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return float(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _by_time(pick: Callable[..., Any]) -> Callable[[list[Row]], Any]:
    def apply(frame: list[Row]) -> Any:
        values = [(row["at"], row["v"]) for row in frame if row["v"] is not None]
        return pick(values)[1] if values else None

    return apply


def _least_text(frame: list[Row]) -> Any:
    pairs = [(row["s"], row["v"]) for row in frame if row["s"] is not None and row["v"] is not None]
    return min(pairs)[1] if pairs else None


def _positive(frame: list[Row]) -> list[Row]:
    return [row for row in frame if row["v"] is not None and row["v"] > 0]


AGGREGATES: dict[str, tuple[AggregateCall, Callable[[list[Row]], Any]]] = {
    "n": (AggregateCall("count"), len),
    "values": (AggregateCall("count", (col("v"),)), lambda frame: sum(row["v"] is not None for row in frame)),
    "total": (AggregateCall("sum", (col("v"),)), _of("v", sum)),
    "average": (AggregateCall("mean", (col("v"),)), _of("v", lambda values: sum(values) / len(values))),
    "floats": (AggregateCall("sum", (col("x"),)), _of("x", sum)),
    "least": (AggregateCall("min", (col("v"),)), _of("v", min)),
    "most": (AggregateCall("max", (col("x"),)), _of("x", max)),
    "text": (AggregateCall("max", (col("s"),)), _of("s", max)),
    "spread": (AggregateCall("variance", (col("v"),)), _of("v", _variance)),
    "begins": (AggregateCall("first", (col("v"),)), _by_time(min)),
    "ends": (AggregateCall("last", (col("v"),)), _by_time(max)),
    "of_least": (AggregateCall("arg_min", (col("v"), col("s"))), _least_text),
    "kinds": (AggregateCall("count_distinct", (col("s"),)), lambda frame: len({row["s"] for row in frame} - {None})),
    "listed": (
        AggregateCall("collect", (col("v"),)),
        lambda frame: sorted((row["v"] for row in frame), key=lambda value: (value is None, value)),
    ),
    "own": (AggregateCall("user", (col("v"),), user=Total()), _of("v", sum)),
    "high": (AggregateCall("count").filter(col("v") > 0), lambda frame: len(_positive(frame))),
    "high_total": (
        AggregateCall("sum", (col("v"),)).filter(col("v") > 0),
        lambda frame: _of("v", sum)(_positive(frame)),
    ),
    "high_kinds": (
        AggregateCall("count_distinct", (col("s"),)).filter(col("v") > 0),
        lambda frame: len({row["s"] for row in _positive(frame)} - {None}),
    ),
}


def over(
    keys: tuple[str, ...],
    size: int | None,
    names: Iterable[str],
    schema: StreamSchema = INPUT,
    cuts: Sequence[str] | None = None,
    **options: Any,
) -> Operator:
    """Open the operator of these of `AGGREGATES`; with ``cuts`` one that is restarted so."""
    spec = OverSpec(
        KEYS[keys], tuple((name, AGGREGATES[name][0]) for name in names), size, options.pop("interval_us", 0)
    )

    def make() -> Operator:
        return UpdatingOver(spec, schema, "o") if schema.changelog else Over(spec, schema, "o")

    return open_operator(make() if cuts is None else Restarting(make, cuts, located(keys)), **options)


def located(keys: tuple[str, ...]) -> tuple[Locate, ...]:
    """Return where the keys of rows lie, by input; nothing without keys."""
    if not keys:
        return ()
    projection = compile_projection(KEYS[keys], FIELDS, "o")
    codec = KeyCodec(projection.schema.types)

    def locate(rows: pa.RecordBatch) -> Positions:
        return positions_of(codec.hash(projection(rows).columns, rows.num_rows))

    return (locate,)


def batch_of(rows: Sequence[Row], weights: Sequence[int] | None = None) -> pa.RecordBatch:
    """Return rows as a batch of `INPUT`, or of `CHANGELOG` with weights."""
    batch = pa.RecordBatch.from_pylist(list(rows), schema=FIELDS)
    if weights is None:
        return batch
    return batch.append_column(pa.field(WEIGHT, pa.int8(), nullable=False), pa.array(weights, pa.int8()))


def steps_of(rows: list[Row], cut: random.Random) -> list[pa.RecordBatch | int]:
    """Batches of random sizes, with watermarks no later row falls behind."""
    steps: list[pa.RecordBatch | int] = []
    at, passed = 0, -1
    while at < len(rows):
        size = cut.randint(1, 8)
        steps.append(batch_of(rows[at : at + size]))
        at += size
        watermark = min((row["at"] for row in rows[at:]), default=12) - cut.randint(0, 2)
        if watermark > passed and cut.random() < 0.7:
            steps.append(watermark)
            passed = watermark
    return steps


def _total_order(row: Row) -> tuple[Any, ...]:
    return tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in FIELDS.names)


def _key_of(row: Row, keys: tuple[str, ...]) -> tuple[Any, ...]:
    odd = None if row["v"] is None else int(np.fmod(row["v"], 2))
    return tuple(odd if name == "odd" else row[name] for name in keys)


def expected(rows: Iterable[Row], keys: tuple[str, ...], size: int | None, names: Iterable[str]) -> Counter[Any]:
    """Return every row with its aggregates."""
    runs: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        runs.setdefault(_key_of(row, keys), []).append(row)
    found: Counter[Any] = Counter()
    for run in runs.values():
        run.sort(key=_total_order)
        for index, row in enumerate(run):
            frame = run[0 if size is None else max(0, index - size + 1) : index + 1]
            found[
                _comparable([*(row[name] for name in FIELDS.names), *(AGGREGATES[name][1](frame) for name in names)])
            ] += 1
    return found


def found(collected: Collected) -> Counter[Any]:
    """Return the results; of a changelog, what is left once all is applied."""
    rows: Counter[Any] = Counter()
    for batch in collected.batches.get(MAIN, []):
        batch = batch.set_column(0, "at", batch.column("at").cast(pa.int64()))
        for row in batch.to_pylist():
            weight = row.pop(WEIGHT, 1)
            rows[_comparable(row.values())] += weight
            assert rows[_comparable(row.values())] >= 0, row
    return +rows


def _comparable(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return values that can be counted; floats to ten digits."""
    return tuple(
        float(f"{value:.9e}") if isinstance(value, float) else tuple(value) if isinstance(value, list) else value
        for value in values
    )
