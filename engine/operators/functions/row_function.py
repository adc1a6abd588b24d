"""User functions on rows: map, flat_map and filter.

The only place where rows become Python objects; a function whose parameters are named like columns gets just those
columns, without a dict per row.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, Operator, chunks
from penstock.engine.core.elements import Batch
from penstock.engine.core.event_time import kept_time
from penstock.engine.operators.descriptions import Words, error_details, function_name
from penstock.engine.operators.descriptor import Columns, OperatorDescriptor, Sampling, Wanted
from penstock.engine.operators.functions.call_pace import CallPace
from penstock.engine.operators.functions.python_rows import python_rows, python_values
from penstock.engine.operators.functions.row_calls import FAILED, Failures, take_results
from penstock.engine.operators.functions.row_results import RowResults
from penstock.engine.operators.functions.user_results import rows_without, time_errors
from penstock.model.job_graph import OperatorNode, RowFunctionSpec
from penstock.model.result_columns import is_hidden
from penstock.model.schema import WEIGHT, StreamSchema


class RowFunction(Operator):
    """Calls the user's function once per row; a row for which it raises becomes a dead letter.

    So does one whose result does not fit the schema or has no usable event time.
    """

    def __init__(self, spec: RowFunctionSpec, schema: StreamSchema, name: str) -> None:
        """Take the spec; ``schema`` is the input's."""
        self._spec = spec
        self._names = [name for name in schema.fields.names if not is_hidden(name)]
        self._changelog = schema.changelog
        self._time = kept_time(schema, spec.fields)
        self._results = RowResults(spec.fields, bare=spec.columns is not None)
        self._pace = CallPace()

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Call the function for every row of one batch; where calls take long, some rows at a time."""
        work = self._filter if self._spec.kind == "filter" else self._map
        at, count = 0, batch.rows.num_rows
        while at < count:
            rows = min(self._pace.most_rows, count - at)
            self.context.counters.rows_in += rows
            yield from work(batch if rows == count else batch.with_rows(batch.rows.slice(at, rows)))
            at += rows

    def _take(self, calls: Iterator[Any], count: int) -> tuple[list[Any], Failures]:
        clock = self.context.clock
        began_ns = clock.monotonic_ns()
        taken = take_results(calls, count)
        self._pace.took(count, clock.monotonic_ns() - began_ns)
        return taken

    def _calls(self, rows: pa.RecordBatch) -> Iterator[Any]:
        """Return an iterator that makes one call per row."""
        function = self._spec.function if self._spec.kind != "flat_map" else self._listed
        try:
            return map(function, *self._arguments(rows))
        except (ValueError, OverflowError):
            # Python has no value for something in these rows; the call of the row that holds it will say so.
            return map(self._convert_and_call, repeat(function), (rows.slice(i, 1) for i in range(rows.num_rows)))

    def _arguments(self, rows: pa.RecordBatch) -> list[list[Any]]:
        """Return what the function takes, by parameter."""
        if self._spec.columns is None:
            return [python_rows(rows, self._names)]
        return [python_values(rows.column(name)) for name in self._spec.columns]

    def _convert_and_call(self, function: Any, row: pa.RecordBatch) -> Any:
        return function(*(values[0] for values in self._arguments(row)))

    def _listed(self, *values: Any) -> list[Any]:
        """Call a `flat_map` function and run through what it returns, which may raise too."""
        return list(self._spec.function(*values))

    def _filter(self, batch: Batch) -> Iterator[Emission]:
        # Whether an answer counts as true is asked of the answer, which may raise too.
        answers, failed = self._take(map(bool, self._calls(batch.rows)), batch.rows.num_rows)
        kept = np.array([answer is True for answer in answers], np.bool_)
        self._reject(batch.rows, failed)
        passed = int(np.count_nonzero(kept))
        self.context.counters.passed += passed
        self.context.counters.filtered += batch.rows.num_rows - passed - len(failed)
        yield MAIN, batch.with_rows(batch.rows.filter(pa.array(kept)))

    def _map(self, batch: Batch) -> Iterator[Emission]:
        results, failed = self._take(self._calls(batch.rows), batch.rows.num_rows)
        origin = np.arange(len(results))
        if failed:
            origin = np.delete(origin, list(failed))
            results = [result for result in results if result is not FAILED]
        if self._spec.kind == "flat_map":
            origin = np.repeat(origin, np.fromiter(map(len, results), np.int64, len(results)))
            results = list(chain.from_iterable(results))
        rows, kept, unfit = self._results.to_rows(results)
        failed |= {int(origin[index]): reason for index, reason in reversed(unfit.items())}
        bad, origin = time_errors(rows, self._time), origin[kept]
        failed |= {int(origin[row]): f"in the result, {reason}" for row, reason in bad.items()}
        if bad:
            rows, left = rows_without(rows, bad)
            origin = origin[left]
        if unfit or len(failed):
            # A flat_map row is passed or rejected as a whole.
            good = ~np.isin(origin, list(failed))
            rows, origin = (rows, origin) if good.all() else (rows.filter(pa.array(good)), origin[good])
        self._reject(batch.rows, failed)
        self.context.counters.passed += batch.rows.num_rows - len(failed)
        if self._changelog:
            weights = batch.rows.column(WEIGHT).take(pa.array(origin))
            rows = rows.append_column(pa.field(WEIGHT, pa.int8(), nullable=False), weights)
        for part in chunks(rows, self.context.batch_rows):
            yield MAIN, batch.with_rows(part)

    def _reject(self, rows: pa.RecordBatch, failed: Failures) -> None:
        if not failed:
            return
        numbers = sorted(failed)
        bad = rows.take(pa.array(numbers, pa.int64()))
        self.context.counters.dead_lettered += bad.num_rows
        self.context.dead_letters.reject(self.context.name, bad, [failed[number] for number in numbers])


class RowFunctionDescriptor(OperatorDescriptor[RowFunctionSpec]):
    """A function of the user's makes rows of each row, or says whether it stays."""

    spec = RowFunctionSpec
    verb = "map"
    operator = RowFunction
    stateful = False
    needs_time = False

    def outputs(self, spec: RowFunctionSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return what the function makes; event time is kept with its column."""
        if spec.kind == "filter":
            return {MAIN: inputs[0]}
        return {MAIN: StreamSchema(spec.fields, kept_time(inputs[0], spec.fields), inputs[0].changelog)}

    def needed(self, spec: RowFunctionSpec, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Return the columns that the function names, if it does; a filter passes on what is wanted besides."""
        if spec.columns is None:
            return super().needed(spec, inputs, wanted)
        passed = wanted.get(MAIN, frozenset()) if spec.kind == "filter" else frozenset()
        return [frozenset(spec.columns) | passed]

    def carried(self, spec: RowFunctionSpec, columns: Columns) -> Columns | None:
        """Return the columns if the rows are what they were."""
        return columns if spec.kind == "filter" else None

    def with_hidden(self, spec: RowFunctionSpec, names: Columns) -> RowFunctionSpec | None:
        """Return the spec if the rows are what they were."""
        return spec if spec.kind == "filter" else None

    def decides_by(self, spec: RowFunctionSpec, names: Columns) -> Set[str]:
        """Return what a filter looks at."""
        looks_at = names if spec.columns is None else spec.columns
        return frozenset(looks_at if spec.kind == "filter" else ())

    def sampling(self, spec: RowFunctionSpec) -> Sampling:
        """Return whether rows are what they were, are made of one each, or several of one."""
        return {"filter": Sampling.CARRIED, "map": Sampling.PASSED}.get(spec.kind, Sampling.SPREAD)

    def words(self, spec: RowFunctionSpec, node: OperatorNode) -> Words:
        """Name the function and what it takes and makes."""
        arguments = "row" if spec.columns is None else ", ".join(spec.columns)
        columns = () if spec.kind == "filter" else (("columns", ", ".join(spec.fields.names)),)
        headline = f"{spec.kind} {function_name(spec.function)}({arguments})"
        return Words(headline, (*columns, *error_details(spec.on_error)))


ROW_FUNCTION = RowFunctionDescriptor()
