"""Operators that take each row by itself: filter, project, split; and the union of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from sqlglot import exp

from penstock.model.expression_functions import When, when
from penstock.model.expressions import Expr, col, lit
from penstock.model.job_graph import MAIN, FilterSpec, OperatorNode, ProjectSpec, SplitSpec, UnionSpec
from penstock.model.result_columns import ACCURACY, BIASED, DRAW
from penstock.replay.frames import Frame, ReplayContext, Rows
from penstock.replay.inexact import InexactColumns, check_exact, computed_column
from penstock.replay.operators.expressions import projected, same, with_columns
from penstock.replay.sample_columns import EXPECTED, KEEP, USED, passed_on
from penstock.replay.spark_form import SparkForm
from penstock.replay.spark_types import quoted_name

_BRANCH = "$branch"

_WHOLE = {KEEP: "1.0D", EXPECTED: "1L", USED: "1L", ACCURACY: "1.0D", BIASED: "false"}
"""Hidden columns of rows that nothing was shed from."""


class FilterForm(SparkForm[FilterSpec]):
    """Rows go through as they are, or not at all."""

    spec = FilterSpec
    carries = True

    def compile(self, spec: FilterSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Pass the rows for which the predicate is true."""
        frame = inputs[0]
        fields = frame.fields
        return {MAIN: projected(frame.rows, fields, same(fields), node.name, where=spec.predicate)}

    def hidden(self, spec: FilterSpec, inputs: Sequence[Frame], context: ReplayContext) -> pa.Schema:
        """Return those of the input."""
        return inputs[0].hidden

    def passed(self, spec: FilterSpec, names: Mapping[str, str]) -> Mapping[str, str]:
        """Return the names: columns are what they were."""
        return names

    def inexact(self, spec: FilterSpec, node: OperatorNode, approximate: InexactColumns) -> InexactColumns:
        """Return what is known, if the predicate reads none of it."""
        check_exact(node, approximate, [spec.predicate])
        return approximate


FILTER = FilterForm()


class ProjectForm(SparkForm[ProjectSpec]):
    """Columns are computed, each by itself."""

    spec = ProjectSpec
    carries = True

    def compile(self, spec: ProjectSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Compute the output columns."""
        frame = inputs[0]
        hidden = [(name, col(old)) for name, old in _passed_on(spec, frame).items()]
        return {MAIN: projected(frame.rows, frame.fields, [*spec.columns, *hidden], node.name, where=spec.where)}

    def hidden(self, spec: ProjectSpec, inputs: Sequence[Frame], context: ReplayContext) -> pa.Schema:
        """Return those of the rows, and of columns that are only renamed."""
        kinds = inputs[0].hidden
        return pa.schema([kinds.field(old).with_name(name) for name, old in _passed_on(spec, inputs[0]).items()])

    def passed(self, spec: ProjectSpec, names: Mapping[str, str]) -> Mapping[str, str]:
        """Return the names of columns that are only renamed."""
        columns = {name: column for name, item in spec.columns if (column := renamed_column(item)) is not None}
        return {columns[name]: origin for name, origin in names.items() if name in columns}

    def inexact(self, spec: ProjectSpec, node: OperatorNode, approximate: InexactColumns) -> InexactColumns:
        """Return what is computed from what is known."""
        check_exact(node, approximate, [] if spec.where is None else [spec.where])
        computed = ((name, computed_column(expression, approximate)) for name, expression in spec.columns)
        return {name: column for name, column in computed if column is not None}


PROJECT = ProjectForm()


class SplitForm(SparkForm[SplitSpec]):
    """Rows go through as they are, each by one of several outputs."""

    spec = SplitSpec
    carries = True

    def compile(self, spec: SplitSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Send every row to the first output whose predicate is true, the rest to the main output."""
        frame = inputs[0]
        outputs = [output for output, _ in spec.outputs]
        branches = with_columns(frame.rows, frame.fields, [(_BRANCH, _branch(spec))], node.name)
        columns = [quoted_name(name) for name in frame.fields.names]
        return {
            output: branches.filter(f"{quoted_name(_BRANCH)} = {index}").select(*columns)
            for index, output in enumerate([*outputs, MAIN])
        }

    def hidden(self, spec: SplitSpec, inputs: Sequence[Frame], context: ReplayContext) -> pa.Schema:
        """Return those of the input."""
        return inputs[0].hidden

    def passed(self, spec: SplitSpec, names: Mapping[str, str]) -> Mapping[str, str]:
        """Return the names: columns are what they were."""
        return names

    def inexact(self, spec: SplitSpec, node: OperatorNode, approximate: InexactColumns) -> InexactColumns:
        """Return what is known, if no predicate reads any of it."""
        check_exact(node, approximate, (predicate for _, predicate in spec.outputs))
        return approximate


SPLIT = SplitForm()


class UnionForm(SparkForm[UnionSpec]):
    """Rows of several streams become one stream."""

    spec = UnionSpec
    carries = True

    def compile(self, spec: UnionSpec, node: OperatorNode, inputs: Sequence[Frame], context: ReplayContext) -> Rows:
        """Merge rows of the same columns."""
        names = [*inputs[0].schema.fields.names, *self.hidden(spec, inputs, context).names]
        sides = (_with_all(frame, names) for frame in inputs)
        return {MAIN: reduce(lambda rows, more: rows.union(more), sides)}

    def hidden(self, spec: UnionSpec, inputs: Sequence[Frame], context: ReplayContext) -> pa.Schema:
        """Return those of any input; which rows were drawn together is lost where others come between."""
        return pa.schema({item.name: item for frame in inputs for item in frame.hidden if item.name != DRAW}.values())

    def inexact(self, spec: UnionSpec, node: OperatorNode, approximate: InexactColumns) -> InexactColumns:
        """Return what is known of any input."""
        return approximate


UNION = UnionForm()


def _passed_on(spec: ProjectSpec, frame: Frame) -> Mapping[str, str]:
    plain = {name: column for name, item in spec.columns if (column := renamed_column(item)) is not None}
    return passed_on(frame.hidden, {column: name for name, column in plain.items()})


def _with_all(frame: Frame, names: Sequence[str]) -> DataFrame:
    """Return rows with these columns; what no shedder stands in front of was kept whole."""
    if not names[len(frame.schema.fields) :] and not frame.hidden.names:
        return frame.rows
    known = frame.fields.names
    columns = [
        quoted_name(name) if name in known else f"{_WHOLE.get(name, 'NULL')} AS {quoted_name(name)}" for name in names
    ]
    return frame.rows.selectExpr(*columns)


def _branch(spec: SplitSpec) -> Expr:
    """Return the number of the output that a row takes; a predicate behind the one that is true cannot fail for it."""
    conditions = [predicate for _, predicate in spec.outputs]
    cases: When = when(conditions[0])
    for index, condition in enumerate(conditions[1:]):
        cases = cases.then(lit(index)).when(condition)
    return cases.then(lit(len(conditions) - 1)).otherwise(lit(len(conditions)))


def renamed_column(expression: Expr) -> str | None:
    """Return the column that an expression is, under whatever name; None: it computes something."""
    tree = expression.tree
    while isinstance(tree, exp.Alias | exp.Paren):
        tree = tree.this
    return str(tree.name) if isinstance(tree, exp.Column) else None
