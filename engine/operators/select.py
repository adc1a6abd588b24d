"""Stateless operators over expressions: filter, project and split."""

from collections.abc import Iterable

import pyarrow.compute as pc

from penstock.engine.core.contract import MAIN, Emission, Operator
from penstock.engine.core.elements import Batch
from penstock.engine.expressions.compiler import compile_predicate, compile_projection
from penstock.engine.operators.isolate import evaluate
from penstock.model.expressions import col
from penstock.model.job_graph import FilterSpec, ProjectSpec, SplitSpec
from penstock.model.schema import WEIGHT, StreamSchema


class Filter(Operator):
    """Passes the rows for which the predicate is true."""

    def __init__(self, spec: FilterSpec, schema: StreamSchema, name: str) -> None:
        """Compile the predicate against the input's fields."""
        self._predicate = compile_predicate(spec.predicate, schema.fields, name)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Filter one batch."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        rows, mask = evaluate(self.context, self._predicate, batch.rows)
        if mask is None:
            return
        passed = rows.filter(mask)
        counters.passed += passed.num_rows
        counters.filtered += rows.num_rows - passed.num_rows
        yield MAIN, batch.with_rows(passed)


class Project(Operator):
    """Computes the output columns, of the rows that fulfil its condition; a changelog's weight passes through."""

    def __init__(self, spec: ProjectSpec, schema: StreamSchema, name: str) -> None:
        """Compile all columns together, so that they share subexpressions."""
        columns = list(spec.columns)
        fields = schema.fields
        if schema.changelog:
            fields = schema.physical
            columns.append((WEIGHT, col(WEIGHT)))
        self._projection = compile_projection(columns, fields, name, where=spec.where)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Project one batch."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        rows, projected = evaluate(self.context, self._projection, batch.rows)
        if projected is None:
            return
        counters.passed += projected.num_rows
        counters.filtered += rows.num_rows - projected.num_rows
        yield MAIN, batch.with_rows(projected)


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
