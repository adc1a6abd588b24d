"""What both joins do first with a batch: compute the keys, keep the needed columns, drop rows with null keys."""

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.core.contract import OperatorContext
from penstock.engine.expressions.compiler import compile_projection
from penstock.engine.operators.isolate import evaluate
from penstock.model.expressions import Expr, col, column_name
from penstock.model.schema import StreamSchema
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.store import Positions
from penstock.state.tables.image import positions_of


class JoinSide:
    """One input of a join.

    ``fields`` are the columns kept of it, the computed keys behind them; ``keys`` names the key columns among them.
    """

    def __init__(
        self,
        schema: StreamSchema,
        columns: Sequence[str],
        keys: tuple[Expr, ...],
        types: tuple[pa.DataType, ...],
        operator: str,
    ) -> None:
        """Compile the keys, which are compared as ``types``; ``columns`` are to be kept besides."""
        self.codec = KeyCodec(types)
        kept: list[tuple[str, Expr]] = [(column, col(column)) for column in columns]
        names: list[str] = []
        for index, key in enumerate(keys):
            plain = column_name(key)
            if plain is not None and plain in columns:
                names.append(plain)
            else:
                names.append(f"$key{index}")
                kept.append((f"$key{index}", key))
        self.keys = tuple(names)
        self._projection = compile_projection(kept, schema.fields, operator)
        self.fields = self._projection.schema

    def read(
        self, context: OperatorContext, rows: pa.RecordBatch, beside: Sequence[str] = (), null_keys: bool = False
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return ``fields`` of the rows that can have partners, and their input columns ``beside``; count the others.

        A row with a null key is filtered, for null equals nothing, unless ``null_keys`` are asked for; one whose key
        cannot be computed is a dead letter.
        """
        rows, kept = evaluate(context, self._projection, rows)
        if kept is None:
            return pa.RecordBatch.from_pylist([], schema=self.fields), rows.select(beside)
        others = rows.select(beside)
        known = None if null_keys else self.known(kept)
        if known is not None:
            others = others.filter(known)
            context.counters.filtered += kept.num_rows - pc.sum(known).as_py()
            kept = kept.filter(known)
        return kept, others

    def known(self, rows: pa.RecordBatch) -> pa.BooleanArray | None:
        """Return which rows have no null among their keys; None: all of them."""
        columns = [rows.column(name) for name in self.keys]
        if not any(column.null_count for column in columns):
            return None
        return reduce(pc.and_, [pc.is_valid(column) for column in columns])

    def encode(self, rows: pa.RecordBatch) -> KeyBatch:
        """Return the keys of rows that have at least the key columns."""
        return self.codec.encode([rows.column(name) for name in self.keys])

    def locate(self, rows: pa.RecordBatch) -> Positions:
        """Return where the keys of rows lie that have at least the key columns; null is a key like others."""
        return positions_of(self.codec.hash([rows.column(name) for name in self.keys], rows.num_rows))
