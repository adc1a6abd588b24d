"""Positions of keys among the key groups: those that exchanges route by, computed for rows that state keeps."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.engine.expressions.compiler import CompiledProjection, compile_projection
from penstock.model.expressions import Expr
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import Positions
from penstock.state.tables.image import positions_of


class KeyPositions:
    """Returns the key positions of rows of one input of a keyed operator; compiled when it is first asked."""

    def __init__(self, keys: Sequence[Expr], fields: pa.Schema, operator: str) -> None:
        """``keys`` are the operator's key expressions over rows with at least these fields."""
        self._keys = [(f"k{index}", key) for index, key in enumerate(keys)]
        self._fields = fields
        self._operator = operator
        self._compiled: tuple[CompiledProjection, KeyCodec] | None = None

    def __call__(self, rows: pa.RecordBatch) -> Positions:
        """Return where the key of each row lies."""
        if self._compiled is None:
            projection = compile_projection(self._keys, self._fields, self._operator)
            self._compiled = projection, KeyCodec(projection.schema.types)
        projection, codec = self._compiled
        return positions_of(codec.hash(projection(rows.select(self._fields.names)).columns, rows.num_rows))
