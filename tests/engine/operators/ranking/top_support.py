"""What the tests of top-n share: a stream of awkward rows, and the first of them worked out row by row in Python."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.engine.operators.ranking.top import Top
from penstock.model.expressions import Ordering, col
from penstock.model.keyed_specs import TopSpec
from penstock.model.schema import WEIGHT, StreamSchema
from tests.engine.restarts import Restarting, locate_by

Row = tuple[Any, ...]

FIELDS = pa.schema(
    [
        ("k", pa.string()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.decimal128(30, 2)),
        ("l", pa.list_(pa.int64())),
    ]
)
STREAM = StreamSchema(FIELDS)
CHANGELOG = StreamSchema(FIELDS, changelog=True)

rows = st.tuples(
    st.sampled_from([None, "a", "b", "c"]),
    st.one_of(st.none(), st.integers(-1, 2)),
    st.sampled_from([None, 0.0, 1.5, -math.inf, math.nan]),
    st.sampled_from([None, "", "p", "prefixed-1", "prefixed-2", "\u00e9"]),
    st.sampled_from([None, Decimal("1.00"), Decimal("-99999999999999999999.99"), Decimal("99999999999999999999.99")]),
    st.sampled_from([None, [], [1], [1, 2], [None]]),
)
orders = st.lists(st.tuples(st.sampled_from(["v", "x", "s", "d"]), st.booleans()), min_size=1, max_size=3)
cuts = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def to_batch(items: Sequence[Row], weights: Sequence[int] | None = None) -> pa.RecordBatch:
    """Return rows as a batch of `STREAM`, or with weights of `CHANGELOG`."""
    columns = [pa.array([row[index] for row in items], field.type) for index, field in enumerate(FIELDS)]
    if weights is None:
        return pa.RecordBatch.from_arrays(columns, schema=FIELDS)
    return pa.RecordBatch.from_arrays([*columns, pa.array(weights, pa.int8())], schema=CHANGELOG.physical)


def top_spec(order: Sequence[tuple[str, bool]], count: int, rank: str | None, reverse: bool, key: str = "k") -> TopSpec:
    """Return a spec of the first rows by columns; ``key`` may be empty."""
    keys = ((key, col(key)),) if key else ()
    return TopSpec(keys, count, tuple(Ordering(col(name), down) for name, down in order), rank, reverse)


def restarting(spec: TopSpec, schema: StreamSchema, cuts: Iterable[str]) -> Restarting:
    """Return a top-n that is restarted so."""
    return Restarting(lambda: Top(spec, schema, "t"), cuts, [locate_by("k")] if spec.keys else ())


def kept_rows(top: Restarting) -> int:
    """Return how many rows are in the state of its instances."""
    logs = (inner.context.state.log("rows", inner._plan.input.physical) for inner in top._inner)  # type: ignore[attr-defined]
    return sum(log.live().size for log in logs)


def hashable(row: Iterable[Any]) -> Row:
    """Return the row with one NaN that equals itself, and lists as tuples."""
    return tuple(
        "NaN" if isinstance(value, float) and math.isnan(value) else tuple(value) if isinstance(value, list) else value
        for value in row
    )


def first_rows(items: Iterable[Row], spec: TopSpec) -> Counter[Row]:
    """Return the first rows of every key, with their rank behind them if the spec asks for it."""
    places = {name: index for index, name in enumerate(FIELDS.names)}
    order = [(places[by.expression.tree.name], by.descending) for by in spec.order]

    def compare(one: Row, other: Row) -> int:
        for place, descending in order:
            a, b = one[place], other[place]
            if (a is None) != (b is None):
                return 1 if a is None else -1
            if sign := _compare(a, b):
                return -sign if descending else sign
        for a, b in zip(one, other, strict=True):
            if sign := _compare(a, b):
                return -sign if spec.tie_descending else sign
        return 0

    groups: dict[Any, list[Row]] = {}
    for row in items:
        groups.setdefault(row[0] if spec.keys else None, []).append(row)
    first: Counter[Row] = Counter()
    for group in groups.values():
        for place, row in enumerate(sorted(group, key=cmp_to_key(compare))[: spec.rows]):
            first[hashable((*row, place + 1) if spec.rank else row)] += 1
    return first


def shown(batches: Iterable[pa.RecordBatch]) -> Counter[Row]:
    """Add up a changelog; every weight is +1 or -1, and nothing is retracted that is not there."""
    result: Counter[Row] = Counter()
    for batch in batches:
        for values in batch.to_pylist():
            weight = values.pop(WEIGHT)
            assert weight in (1, -1)
            row = hashable(values.values())
            result[row] += weight
            assert result[row] >= 0, row
    return +result


def only_differences(batches: Sequence[pa.RecordBatch]) -> bool:
    """Whether no row of one emission is both retracted and inserted."""
    signs: dict[Row, set[int]] = {}
    for batch in batches:
        for values in batch.to_pylist():
            weight = values.pop(WEIGHT)
            signs.setdefault(hashable(values.values()), set()).add(weight)
    return all(len(found) == 1 for found in signs.values())


def _compare(a: Any, b: Any) -> int:
    """Compare as SQL does, nulls first: NaN is greatest, lists go element by element."""
    one, other = _rank(a), _rank(b)
    return int(one > other) - int(one < other)


def _rank(value: Any) -> Any:
    if value is None:
        return (0,)
    if isinstance(value, list):
        return (1, [_rank(item) for item in value])
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)
