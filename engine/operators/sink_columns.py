"""The columns in which a query under contract writes how good its results are. Called by the sink's operator.

Behind the user's stand ``accuracy`` and ``biased``, then ``NAME_low``, ``NAME_high`` and ``NAME_certified`` of each
aggregate NAME with an interval that the query still shows.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.core.elements import Batch
from penstock.model.result_columns import ACCURACY, BIASED, certified_of, high_of, is_hidden, low_of
from penstock.model.schema import WEIGHT, StreamSchema

_QUALITY = (pa.field("accuracy", pa.float64(), nullable=False), pa.field("biased", pa.bool_(), nullable=False))


class SinkColumns:
    """Shows what is hidden in rows of one schema, whether or not an aggregate has said something of them.

    ``schema`` is that of the rows it makes, which do not have columns of one name twice if `clash` is None.
    """

    def __init__(self, schema: StreamSchema, *, nullable: bool = False) -> None:
        """Take the schema of the rows as they come; with ``nullable`` a value with an interval can be left out."""
        names = schema.fields.names
        users = [name for name in names if not is_hidden(name)]
        estimated = [name for name in users if low_of(name) in names]
        added = [*_QUALITY, *(field for name in estimated for field in _interval(schema.fields, name))]
        shown_fields = (schema.fields.field(name) for name in users)
        own = [field.with_nullable(True) if nullable and field.name in estimated else field for field in shown_fields]
        fields = [*own, *added]
        shown = [field.name for field in fields]
        self.clash = next((field.name for field in added if shown.count(field.name) > 1), None)
        self.intervals = tuple(estimated)
        self._users = [*users]
        self._hidden = [of(name) for name in estimated for of in (low_of, high_of, certified_of)]
        self._has_quality = ACCURACY in names
        self._changelog = schema.changelog
        self._fields = pa.schema(fields)
        self._schema: StreamSchema | None = None
        self._time = schema.time
        self._keep = 1.0
        self._same = _same_quality(1.0, 0)

    @property
    def schema(self) -> StreamSchema:
        """The schema of the rows that are made."""
        if self._schema is None:
            self._schema = StreamSchema(self._fields, self._time, self._changelog)
        return self._schema

    def rows(self, batch: Batch, share: float = 1.0) -> pa.RecordBatch:
        """Return the rows with what they hide, and what their header says: rows that nothing has folded are a sample.

        The accuracy of a result says of how much it was made; of what was shed behind that, the header does. Of a query
        of which only a ``share`` was kept by no sample, values are biased and have no intervals.
        """
        rows = batch.rows
        if self._has_quality:
            accuracy, biased = rows.column(ACCURACY), rows.column(BIASED)
            accuracy = accuracy if batch.keep == 1.0 else pc.multiply(accuracy, batch.keep)
        else:
            accuracy, biased = self._sampled(batch.keep, rows.num_rows)
        hidden = [rows.column(name) for name in self._hidden]
        if share < 1.0:
            accuracy = pc.multiply(accuracy, share)
            biased = pa.array(np.ones(rows.num_rows, np.bool_))
            hidden = [_unknown(column) for column in hidden]
        columns = [rows.column(name) for name in self._users]
        columns += [accuracy, biased, *hidden]
        if self._changelog:
            columns.append(rows.column(WEIGHT))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.physical)

    def _sampled(self, keep: float, rows: int) -> tuple[pa.Array, pa.Array]:
        """Return the accuracy of as many rows of one keep rate, unbiased: slices, since rates seldom change."""
        if keep != self._keep or len(self._same[0]) < rows:
            self._keep, self._same = keep, _same_quality(keep, rows)
        accuracy, biased = self._same
        return accuracy.slice(0, rows), biased.slice(0, rows)


def _unknown(column: pa.Array) -> pa.Array:
    """Return an end of an interval that is not there, or that none is certified."""
    return (
        pa.array(np.zeros(len(column), np.bool_)) if column.type == pa.bool_() else pa.nulls(len(column), column.type)
    )


def _same_quality(keep: float, rows: int) -> tuple[pa.Array, pa.Array]:
    return pa.array(np.full(rows, keep)), pa.array(np.zeros(rows, np.bool_))


def _interval(fields: pa.Schema, name: str) -> list[pa.Field]:
    """Return the fields of an aggregate's interval, by the names that users see."""
    hidden = {"low": low_of(name), "high": high_of(name), "certified": certified_of(name)}
    return [fields.field(column).with_name(f"{name}_{part}") for part, column in hidden.items()]
