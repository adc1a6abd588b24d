"""The two sides of a join of a replay: their keys, and names under which columns of both can stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.engine.operators.joins.join_schema import key_types
from penstock.model.expressions import Expr
from penstock.model.job_graph import OperatorNode
from penstock.model.join_specs import Output, TwoSided
from penstock.model.windows import Hopping, Tumbling
from penstock.replay.frames import RAISED, Frame
from penstock.replay.operators.prepared import AT, computed, over, quoted, shown, tie_order, with_times
from penstock.replay.operators.windows import END, START, with_bounds
from penstock.replay.spark_constants import quoted as literal
from penstock.replay.spark_types import sql_type

_PLACE, _FIRST = "$place", "$first"


@dataclass(frozen=True)
class JoinSide:
    """One input of a join: ``number`` is 0 on the left and 1 on the right.

    Keys are compared in the types ``kinds``. ``beside`` are further expressions to compute, by name. With ``once`` each
    key comes once: of rows that are equal in these columns one counts, and the query fails if others repeat a key.
    """

    operator: str
    number: int
    frame: Frame
    keys: tuple[Expr, ...]
    kinds: Sequence[pa.DataType]
    beside: tuple[tuple[str, Expr], ...] = ()
    once: tuple[str, ...] | None = None

    def rows(self, window: Tumbling | Hopping | None = None) -> DataFrame:
        """Return the rows with their columns renamed by `column`, and keys, times and windows beside them."""
        schema = self.frame.schema
        keys = [(f"$key{index}", key) for index, key in enumerate(self.keys)]
        rows = computed(self.frame, [*keys, *self.beside], self.operator)
        timed = schema.time is not None
        if timed:
            rows = with_times(rows, schema)
        if self.once is not None:
            rows = self._first(rows, [name for name, _ in keys], self.once)
        if window is not None:
            rows = with_bounds(rows, window, self.operator)
        added = [name for name, _ in self.beside] + ([AT] if timed else []) + ([] if window is None else [START, END])
        columns = [(name, quoted(name)) for name in (*schema.fields.names, *added)]
        columns += [
            (name, f"CAST({quoted(name)} AS {sql_type(kind)})")
            for (name, _), kind in zip(keys, self.kinds, strict=True)
        ]
        return rows.selectExpr(*(f"{sql} AS {self.column(name)}" for name, sql in columns))

    def _first(self, rows: DataFrame, keys: Sequence[str], columns: Sequence[str]) -> DataFrame:
        struct = f"struct({', '.join(['1', *map(quoted, columns), *(quoted(name) for name, _ in self.beside)])})"
        clause = over(keys, tie_order(self.frame.schema.fields))
        rows = rows.selectExpr(
            "*", f"row_number() {clause} AS {quoted(_PLACE)}", f"first_value({struct}) {clause} AS {quoted(_FIRST)}"
        )
        with_key = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in keys)
        # Which of them came first, and is the one that the stream has kept, is not known in a batch.
        why = error_sql(
            f"operator {self.operator!r} cannot be replayed: keys that are to come once come again with other values "
            f"on its {'right' if self.number else 'left'} side, where the stream keeps the row that arrives first"
        )
        repeated = f"CASE WHEN {quoted(_FIRST)} <=> {struct} THEN FALSE ELSE {why} END"
        return rows.filter(f"CASE WHEN {quoted(_PLACE)} = 1 THEN TRUE WHEN {with_key} THEN {repeated} ELSE FALSE END")

    def column(self, name: str) -> str:
        """Return the quoted name of one of the input's columns, or of one that is added, in what `rows` returns."""
        return quoted(f"${self.number}:{name}")


def two_sides(spec: TwoSided, node: OperatorNode, inputs: Sequence[Frame]) -> tuple[JoinSide, JoinSide]:
    """Return the sides of a join of two streams, with nothing beside their columns."""
    left, right = inputs
    kinds = key_types(spec, left.schema, right.schema, node.name)
    return JoinSide(node.name, 0, left, spec.left_keys, kinds), JoinSide(node.name, 1, right, spec.right_keys, kinds)


def error_sql(text: str) -> str:
    """Return what fails a query with a `ReplayError`, as a condition in Spark SQL."""
    return f"CAST(raise_error({literal(chr(10) + RAISED + text + chr(10))}) AS BOOLEAN)"


def joined(
    left: DataFrame, right: DataFrame, sides: tuple[JoinSide, JoinSide], conditions: Sequence[str], how: str
) -> DataFrame:
    """Join rows with equal keys, of which null is none, that fulfil further conditions."""
    names = [f"$key{index}" for index in range(len(sides[0].keys))]
    equal = [f"{sides[0].column(name)} = {sides[1].column(name)}" for name in names]
    return left.join(right, f.expr(" AND ".join([*equal, *conditions])), how)


def put_out(
    rows: DataFrame, sides: tuple[JoinSide, JoinSide], output: Output, fields: pa.Schema, **own: str
) -> DataFrame:
    """Return the output columns of a join; ``own`` are those of side -1, as text."""
    columns = {result: own[column] if side == -1 else sides[side].column(column) for result, side, column in output}
    return shown(rows, columns, fields)
