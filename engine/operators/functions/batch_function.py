"""User functions on whole batches: anything with the Arrow PyCapsule interface goes in and comes out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, Operator, chunks
from penstock.engine.core.elements import Batch
from penstock.engine.core.event_time import kept_time
from penstock.engine.operators.descriptions import Words, error_details, function_name
from penstock.engine.operators.descriptor import OperatorDescriptor, Sampling
from penstock.engine.operators.functions.user_results import batch_of, time_errors
from penstock.model.errors import BadRecordError, PlanError
from penstock.model.job_graph import BatchFunctionSpec, OperatorNode
from penstock.model.option_literals import BatchFormat
from penstock.model.schema import StreamSchema
from penstock.model.source_location import user_traceback

FORMATS = get_args(BatchFormat)
"""What a batch function may ask for."""


class BatchFunction(Operator):
    """Calls the user's function once per batch; if it raises, all rows of the batch become dead letters.

    So they do if the result does not fit the schema or lacks a usable event time in some row.
    """

    def __init__(self, spec: BatchFunctionSpec, schema: StreamSchema, name: str) -> None:
        """Look up the format's library now, so that a missing one is a build-time error."""
        self._function = spec.function
        self._fields = spec.fields
        self._time = kept_time(schema, spec.fields)
        self._convert = _converter(spec.format, name)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Call the function for one batch."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        try:
            rows = batch_of(self._function(self._convert(batch.rows)), self._fields, "a batch function must return")
            for row, reason in time_errors(rows, self._time).items():
                raise BadRecordError(f"in row {row + 1} of the result, {reason}")
        except Exception as raised:
            text = user_traceback(raised)
            counters.dead_lettered += batch.rows.num_rows
            self.context.dead_letters.reject(self.context.name, batch.rows, [text] * batch.rows.num_rows)
            return
        counters.passed += batch.rows.num_rows
        for part in chunks(rows, self.context.batch_rows):
            yield MAIN, batch.with_rows(part)


def _converter(name: str, operator: str) -> Callable[[pa.RecordBatch], Any]:
    if name == "pyarrow":
        return lambda rows: rows
    if name == "numpy":
        return lambda rows: {name: rows.column(name).to_numpy(zero_copy_only=False) for name in rows.schema.names}
    if name == "polars":
        try:
            import polars
        except ImportError:
            raise PlanError(f"operator {operator!r} asks for polars batches: pip install polars") from None
        return polars.DataFrame
    if name == "pandas":
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise PlanError(f"operator {operator!r} asks for pandas batches: pip install pandas") from None
        return lambda rows: rows.to_pandas()
    raise PlanError(f"format of {operator!r} must be one of {', '.join(FORMATS)}, not {name!r}")


class BatchFunctionDescriptor(OperatorDescriptor[BatchFunctionSpec]):
    """A function of the user's makes batches of batches."""

    spec = BatchFunctionSpec
    verb = "map_batches"
    operator = BatchFunction
    stateful = False

    def outputs(self, spec: BatchFunctionSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return what the function makes; event time is kept with its column.

        Raises:
            PlanError: the input is updating.
        """
        if inputs[0].changelog:
            raise PlanError(
                f"{name!r} calls a batch function on an updating stream, which it could not retract; "
                "use a final window, or map row by row"
            )
        return {MAIN: StreamSchema(spec.fields, kept_time(inputs[0], spec.fields))}

    def sampling(self, spec: BatchFunctionSpec) -> Sampling:
        """Return that as many rows are made of each as the function likes."""
        return Sampling.SPREAD

    def words(self, spec: BatchFunctionSpec, node: OperatorNode) -> Words:
        """Name the function and what it takes and makes."""
        columns = ("columns", ", ".join(spec.fields.names))
        headline = f"map batches {function_name(spec.function)}({spec.format})"
        return Words(headline, (columns, *error_details(spec.on_error)))


BATCH_FUNCTION = BatchFunctionDescriptor()
