"""Operators that take each row by itself: filter, project, split; and the union of rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from penstock.model.expression_functions import When, when
from penstock.model.expressions import Expr, lit
from penstock.model.job_graph import MAIN, FilterSpec, OperatorNode, ProjectSpec, SplitSpec, UnionSpec
from penstock.replay.frames import Context, Frame, Rows
from penstock.replay.operators.expressions import projected, same, with_columns
from penstock.replay.spark_types import quoted_name

_BRANCH = "$branch"


def compile_filter(spec: FilterSpec, node: OperatorNode, inputs: Sequence[Frame], context: Context) -> Rows:
    """Pass the rows for which the predicate is true."""
    frame = inputs[0]
    fields = frame.schema.fields
    return {MAIN: projected(frame.rows, fields, same(fields), node.name, where=spec.predicate)}


def compile_project(spec: ProjectSpec, node: OperatorNode, inputs: Sequence[Frame], context: Context) -> Rows:
    """Compute the output columns."""
    frame = inputs[0]
    return {MAIN: projected(frame.rows, frame.schema.fields, spec.columns, node.name, where=spec.where)}


def compile_split(spec: SplitSpec, node: OperatorNode, inputs: Sequence[Frame], context: Context) -> Rows:
    """Send every row to the first output whose predicate is true, the rest to the main output."""
    frame = inputs[0]
    outputs = [output for output, _ in spec.outputs]
    branches = with_columns(frame.rows, frame.schema.fields, [(_BRANCH, _branch(spec))], node.name)
    columns = [quoted_name(name) for name in frame.schema.fields.names]
    return {
        output: branches.filter(f"{quoted_name(_BRANCH)} = {index}").select(*columns)
        for index, output in enumerate([*outputs, MAIN])
    }


def compile_union(spec: UnionSpec, node: OperatorNode, inputs: Sequence[Frame], context: Context) -> Rows:
    """Merge rows of the same columns."""
    return {MAIN: reduce(lambda rows, more: rows.union(more), (frame.rows for frame in inputs))}


def _branch(spec: SplitSpec) -> Expr:
    """Return the number of the output that a row takes; a predicate behind the one that is true cannot fail for it."""
    conditions = [predicate for _, predicate in spec.outputs]
    cases: When = when(conditions[0])
    for index, condition in enumerate(conditions[1:]):
        cases = cases.then(lit(index)).when(condition)
    return cases.then(lit(len(conditions) - 1)).otherwise(lit(len(conditions)))
