"""Stateless operators over expressions: filter, project and split."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.core.contract import MAIN, Emission, Operator
from penstock.engine.core.elements import Batch
from penstock.engine.expressions.compiler import compile_predicate, compile_projection, infer_type
from penstock.engine.operators.descriptions import Words, columns_text, expression_text
from penstock.engine.operators.descriptor import Columns, OperatorDescriptor, Sampling, Wanted, columns_used
from penstock.engine.operators.isolate import evaluate
from penstock.model.errors import ExpressionError
from penstock.model.expressions import Expr, col, column_name, columns_of
from penstock.model.job_graph import FilterSpec, OperatorNode, ProjectSpec, SplitSpec
from penstock.model.result_columns import hidden_of, is_hidden
from penstock.model.sampling import STEP
from penstock.model.schema import WEIGHT, StreamSchema, TimeColumn


class _Selection(Operator):
    """Passes what a function returns of each batch, which may be fewer rows.

    Rows whose branches shed have their steps as last column, and so have those that are made of them.
    """

    _select: Callable[[pa.RecordBatch], pa.RecordBatch]

    def _with_steps(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return the function for rows with steps."""
        return self._select

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Select from one batch."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        select = self._with_steps() if batch.branches else self._select
        rows, selected = evaluate(self.context, select, batch.rows)
        if selected is None:
            return
        counters.passed += selected.num_rows
        counters.filtered += rows.num_rows - selected.num_rows
        yield MAIN, batch.with_rows(selected)


class Filter(_Selection):
    """Passes the rows for which the predicate is true."""

    def __init__(self, spec: FilterSpec, schema: StreamSchema, name: str) -> None:
        """Compile the predicate against the input's fields."""
        predicate = compile_predicate(spec.predicate, schema.fields, name)
        self._select = lambda rows: rows.filter(predicate(rows))


class Project(_Selection):
    """Computes the output columns, of the rows that fulfil its condition; a changelog's weight passes through."""

    def __init__(self, spec: ProjectSpec, schema: StreamSchema, name: str) -> None:
        """Compile all columns together, so that they share subexpressions."""
        columns = list(spec.columns)
        fields = schema.fields
        if schema.changelog:
            fields = schema.physical
            columns.append((WEIGHT, col(WEIGHT)))
        self._select = compile_projection(columns, fields, name, where=spec.where)
        self._select_with_steps: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
        self._parts = columns, fields, name, spec.where

    def _with_steps(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        if self._select_with_steps is None:
            columns, fields, name, where = self._parts
            carried = [*columns, (STEP.name, col(STEP.name))]
            self._select_with_steps = compile_projection(carried, fields.append(STEP), name, where=where)
        return self._select_with_steps


class Split(Operator):
    """Sends every row to the first output whose predicate is true, the rest to the main output."""

    def __init__(self, spec: SplitSpec, schema: StreamSchema, name: str) -> None:
        """Compile the predicates in the order they are tried."""
        self._outputs = [
            (output, compile_predicate(predicate, schema.fields, name)) for output, predicate in spec.outputs
        ]

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Split one batch."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        rest = batch.rows
        for output, predicate in self._outputs:
            if not rest.num_rows:
                return
            rest, mask = evaluate(self.context, predicate, rest)
            if mask is None:
                return
            mask = pc.fill_null(mask, False)
            taken = rest.filter(mask)
            rest = rest.filter(pc.invert(mask))
            counters.passed += taken.num_rows
            yield output, batch.with_rows(taken)
        counters.passed += rest.num_rows
        yield MAIN, batch.with_rows(rest)


class Pass(Operator):
    """Passes every row, as a source does."""

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Pass one batch."""
        self.context.counters.rows_in += batch.rows.num_rows
        self.context.counters.passed += batch.rows.num_rows
        yield MAIN, batch


class FilterDescriptor(OperatorDescriptor[FilterSpec]):
    """Rows go through as they are, or not at all."""

    spec = FilterSpec
    verb = "filter"
    operator = Filter
    stateful = False
    needs_time = False

    def outputs(self, spec: FilterSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the input's schema.

        Raises:
            ExpressionError: the predicate is no condition.
        """
        _check_condition(spec.predicate, inputs[0], name)
        return {MAIN: inputs[0]}

    def needed(self, spec: FilterSpec, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Add what the predicate reads."""
        return [wanted.get(MAIN, frozenset()) | columns_of(spec.predicate)]

    def carried(self, spec: FilterSpec, columns: Columns) -> Columns:
        """Return the columns: they are what they were."""
        return columns

    def with_hidden(self, spec: FilterSpec, names: Columns) -> FilterSpec:
        """Return the spec: rows are what they were."""
        return spec

    def decides_by(self, spec: FilterSpec, names: Columns) -> Set[str]:
        """Return what the predicate reads."""
        return columns_of(spec.predicate)

    def sampling(self, spec: FilterSpec) -> Sampling:
        """Return that rows are what they were."""
        return Sampling.CARRIED

    def words(self, spec: FilterSpec, node: OperatorNode) -> Words:
        """Write the predicate."""
        return Words(f"where {expression_text(spec.predicate)}")


class ProjectDescriptor(OperatorDescriptor[ProjectSpec]):
    """Columns are computed, each by itself; a column that is only renamed keeps what it was, event time for one."""

    spec = ProjectSpec
    verb = "select"
    operator = Project
    stateful = False
    needs_time = False

    def outputs(self, spec: ProjectSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the columns that are computed; the first that is the input's event time is the output's.

        Raises:
            ExpressionError: a column cannot be computed.
        """
        schema = inputs[0]
        fields = []
        time = None
        for output, expression in spec.columns:
            plain = column_name(expression)
            if plain is not None and plain in schema.fields.names:
                fields.append(schema.fields.field(plain).with_name(output))
                if schema.time is not None and plain == schema.time.name and time is None:
                    time = TimeColumn(output, schema.time.offset_us)
            else:
                fields.append(pa.field(output, infer_type(expression, schema.fields, name)))
        return {MAIN: StreamSchema(pa.schema(fields), time, schema.changelog)}

    def needed(self, spec: ProjectSpec, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Return what the columns that are wanted are computed from."""
        columns = self.narrowed(spec, wanted.get(MAIN, frozenset())).columns
        where = frozenset() if spec.where is None else columns_of(spec.where)
        return [where | columns_used(expression for _, expression in columns)]

    def narrowed(self, spec: ProjectSpec, columns: Set[str]) -> ProjectSpec:
        """Compute these columns, or one if only the number of rows matters."""
        kept = tuple(item for item in spec.columns if item[0] in columns)
        return replace(spec, columns=kept or spec.columns[:1])

    def carried(self, spec: ProjectSpec, columns: Columns) -> Columns | None:
        """Return the columns by their new names, None if one is not among the result's."""
        renamed = {column_name(expression): name for name, expression in spec.columns}
        return None if any(name not in renamed for name in columns) else tuple(renamed[name] for name in columns)

    def with_hidden(self, spec: ProjectSpec, names: Columns) -> ProjectSpec:
        """Select them as well; what says something of one column goes with it, and is lost where that is computed."""
        plain = [(name, old) for name, expression in spec.columns if (old := column_name(expression)) is not None]
        hidden = tuple((new, col(old)) for new, old in hidden_of(plain, names))
        return replace(spec, columns=(*spec.columns, *hidden))

    def sampling(self, spec: ProjectSpec) -> Sampling:
        """Return that each row is made of one, and can have a column more."""
        return Sampling.CARRIED

    def words(self, spec: ProjectSpec, node: OperatorNode) -> Words:
        """Write what is computed."""
        condition = () if spec.where is None else (("where", expression_text(spec.where)),)
        shown = [item for item in spec.columns if not is_hidden(item[0])]
        return Words(f"select {columns_text(shown)}", condition)


class SplitDescriptor(OperatorDescriptor[SplitSpec]):
    """Rows go through as they are, each by one of several outputs."""

    spec = SplitSpec
    verb = "split"
    operator = Split
    stateful = False
    needs_time = False
    like_outputs = True

    def outputs(self, spec: SplitSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the input's schema for every output.

        Raises:
            ExpressionError: a predicate is no condition.
        """
        for _, predicate in spec.outputs:
            _check_condition(predicate, inputs[0], name)
        return {MAIN: inputs[0], **{output: inputs[0] for output, _ in spec.outputs}}

    def needed(self, spec: SplitSpec, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Return what any output must bring, and what the predicates read."""
        outputs = [wanted.get(output, frozenset()) for output in (MAIN, *(output for output, _ in spec.outputs))]
        return [columns_used(predicate for _, predicate in spec.outputs).union(*outputs)]

    def carried(self, spec: SplitSpec, columns: Columns) -> Columns:
        """Return the columns: they are what they were."""
        return columns

    def with_hidden(self, spec: SplitSpec, names: Columns) -> SplitSpec:
        """Return the spec: rows are what they were."""
        return spec

    def decides_by(self, spec: SplitSpec, names: Columns) -> Set[str]:
        """Return what the predicates read."""
        return columns_used(predicate for _, predicate in spec.outputs)

    def sampling(self, spec: SplitSpec) -> Sampling:
        """Return that rows are what they were."""
        return Sampling.CARRIED

    def words(self, spec: SplitSpec, node: OperatorNode) -> Words:
        """Write the predicates by output."""
        parts = tuple((name, f"where {expression_text(item)}") for name, item in spec.outputs)
        return Words("split", (*parts, ("rest", "all other rows")))


FILTER, PROJECT, SPLIT = FilterDescriptor(), ProjectDescriptor(), SplitDescriptor()


def _check_condition(predicate: Expr, schema: StreamSchema, name: str) -> None:
    kind = infer_type(predicate, schema.fields, name)
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise ExpressionError(f"{name!r} needs a condition (true or false), but {predicate!r} is {kind}")
