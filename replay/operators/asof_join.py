"""The join of every left row with the last right row of its key that is not newer, in a replay.

Both sides are put into one order of time per key, in which a left row looks back at the last right one: no pair of
rows is ever made that does not come out.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.job_graph import MAIN, OperatorNode
from penstock.model.join_specs import AsOfJoinSpec
from penstock.model.schema import StreamSchema
from penstock.replay.checkpoint_progress import before_watermark
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.operators.join_sides import put_out, two_sides
from penstock.replay.operators.prepared import AT, over, quoted, unordered
from penstock.replay.spark_form import SparkForm

_TIME, _SIDE, _LEFT, _RIGHT, _FOUND = "$time", "$side", "$left", "$right", "$found"


class AsOfJoinForm(SparkForm[AsOfJoinSpec]):
    """Each left row meets the last right row of its key."""

    spec = AsOfJoinSpec

    def refuse(self, spec: AsOfJoinSpec, node: OperatorNode, inputs: Sequence[StreamSchema]) -> str | None:
        """Say why there is no counterpart in a batch, None if there is one."""
        column = unordered(inputs[1].fields)
        if column is None:
            return None
        return f"right rows of one time are told apart by all their columns, and Spark cannot order the map {column!r}"

    def compile(self, spec: AsOfJoinSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Look back from every left row."""
        sides = two_sides(spec, node, inputs)
        names = [f"$key{index}" for index in range(len(spec.left_keys))]
        tables = [side.rows() for side in sides]
        with_key = " AND ".join(f"{sides[1].column(name)} IS NOT NULL" for name in names)
        tables[1] = tables[1].filter(with_key)
        columns = [
            [quoted(f"${side.number}:{name}") for name in (*side.frame.schema.fields.names, AT)] for side in sides
        ]
        packed = [f"struct({', '.join(own)})" for own in columns]
        empty = ["NULL", "NULL"]
        parts = []
        for number, (side, table) in enumerate(zip(sides, tables, strict=True)):
            values = [packed[number] if other == number else empty[other] for other in (0, 1)]
            parts.append(
                table.selectExpr(
                    *(f"{side.column(name)} AS {quoted(name)}" for name in names),
                    f"{side.column(AT)} AS {quoted(_TIME)}",
                    # Right rows of a time come before left rows of that time.
                    f"{1 - number} AS {quoted(_SIDE)}",
                    f"{values[0]} AS {quoted(_LEFT)}",
                    f"{values[1]} AS {quoted(_RIGHT)}",
                )
            )
        order = [quoted(_TIME), quoted(_SIDE), f"{quoted(_RIGHT)} ASC NULLS FIRST"]
        clause = over(names, order, "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
        rows = (
            parts[0].unionByName(parts[1]).selectExpr("*", f"last({quoted(_RIGHT)}, true) {clause} AS {quoted(_FOUND)}")
        )
        rows = before_watermark(context.progress, node, rows.filter(f"{quoted(_SIDE)} = 1"), _TIME)
        found_column = quoted(_FOUND)
        if spec.tolerance_us is not None:
            tolerance_us = min(spec.tolerance_us, 1 << 60)
            recent = f"{found_column}.{sides[1].column(AT)} >= {quoted(_TIME)} - {tolerance_us}L"
            rows = rows.selectExpr("*", f"CASE WHEN {recent} THEN {found_column} END AS `$recent`")
            found_column = "`$recent`"
        if spec.how == "inner":
            rows = rows.filter(f"{found_column} IS NOT NULL")
        unpacked = [f"{quoted(_LEFT)}.{name} AS {name}" for name in columns[0]]
        unpacked += [f"{found_column}.{name} AS {name}" for name in columns[1]]
        return {MAIN: put_out(rows.selectExpr(*unpacked), sides, spec.output, node.outputs[MAIN].fields)}


ASOF_JOIN = AsOfJoinForm()
