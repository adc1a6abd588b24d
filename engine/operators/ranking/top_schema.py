"""The plan and output schema of a top-n, checked when the pipeline is built."""

from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.accumulators.ordering import is_ordered
from penstock.engine.expressions.compiler import infer_type
from penstock.model.errors import PlanError
from penstock.model.expressions import column_name
from penstock.model.keyed_specs import TopSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.batch_keys import KeyCodec


@dataclass(frozen=True, slots=True)
class TopPlan:
    """A checked top-n.

    ``order`` holds the types of the order's expressions and whether each descends. ``fixed`` names the columns in which
    rows that tie cannot differ. ``input`` and ``output`` are the streams' schemas, ``output`` with the rank, if any.
    """

    rows: int
    key_types: tuple[pa.DataType, ...]
    order: tuple[tuple[pa.DataType, bool], ...]
    fixed: frozenset[str]
    tie_descending: bool
    ranked: bool
    input: StreamSchema
    output: StreamSchema


def plan_top(spec: TopSpec, schema: StreamSchema, name: str) -> TopPlan:
    """Check a top-n; its output is a changelog of the input's columns and, behind them, the rank.

    Raises:
        PlanError: ``rows`` is below 1, the order is empty or of a type without one, a key cannot be one, or the name of
            the rank is taken.
    """
    if spec.rows < 1:
        raise PlanError(f"{name!r} keeps the first {spec.rows} rows of a key; it has to be at least 1")
    if not spec.order:
        raise PlanError(f"{name!r} has no order to rank rows by; give it at least one expression")
    order = tuple((infer_type(by.expression, schema.fields, name), by.descending) for by in spec.order)
    for by, (kind, _) in zip(spec.order, order, strict=True):
        if not is_ordered(kind):
            raise PlanError(f"{name!r} orders by {by.expression!r}, but {kind} has no order; order by a part of it")
    key_types = tuple(infer_type(key, schema.fields, name) for _, key in spec.keys)
    KeyCodec(key_types)
    fields = schema.fields
    if spec.rank is not None:
        if spec.rank in fields.names:
            raise PlanError(
                f"{name!r} adds a column {spec.rank!r} to rows that have one already; name the rank otherwise"
            )
        fields = fields.append(pa.field(spec.rank, pa.int64(), nullable=False))
    plain = [column_name(key) for _, key in spec.keys] + [column_name(by.expression) for by in spec.order]
    return TopPlan(
        spec.rows,
        key_types,
        order,
        frozenset(column for column in plain if column is not None),
        spec.tie_descending,
        spec.rank is not None,
        schema,
        StreamSchema(fields, None, changelog=True),
    )
