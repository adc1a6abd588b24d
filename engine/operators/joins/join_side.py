"""One side of a join: the keys of a batch, its needed columns, and its rows with null keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.contract import OperatorContext
from penstock.engine.core.event_time import event_times_us
from penstock.engine.expressions.compiler import compile_projection
from penstock.engine.operators.isolate import evaluate
from penstock.engine.operators.joins.join_schema import key_types, side_columns
from penstock.engine.operators.key_sampler import no_buckets
from penstock.model.errors import BugError
from penstock.model.expressions import Expr, col, column_name
from penstock.model.join_specs import Output, TwoSided
from penstock.model.result_columns import BUCKET
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.state.keys.arrays import Ints, Mask
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.keys.key_columns import WordColumn, read_column
from penstock.state.store import Positions
from penstock.state.tables.image import positions_of

S = TypeVar("S", bound="JoinSide")


class JoinSide:
    """One input of a join.

    ``fields`` are the columns kept of it, the computed keys behind them; ``keys`` names the key columns among them, and
    ``needed`` the columns that the output needs.
    """

    def __init__(
        self,
        schema: StreamSchema,
        columns: Sequence[str],
        keys: tuple[Expr, ...],
        types: tuple[pa.DataType, ...],
        operator: str,
        beside: Expr | None = None,
    ) -> None:
        """Compile the keys, which are compared as ``types``, and what is to be computed beside ``columns``."""
        self.schema = schema
        self.codec = KeyCodec(types)
        self.needed = list(columns)
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
        computed = [] if beside is None else [("$beside", beside)]
        self._projection = compile_projection([*kept, *computed], schema.fields, operator)
        self.fields = pa.schema([self._projection.schema.field(name) for name, _ in kept])

    @property
    def exact(self) -> bool:
        """True if the one word that `words` gives is the whole key."""
        return self.codec.words == 1 and not self.codec.has_bytes

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
        with_key = None if null_keys else self.with_key(kept)
        if with_key is not None:
            context.counters.filtered += int(np.count_nonzero(~with_key))
            kept, others = kept.filter(pa.array(with_key)), others.filter(pa.array(with_key))
        return kept, others

    def with_key(self, rows: pa.RecordBatch) -> Mask | None:
        """Return which rows have no null in their key; None: all of them."""
        columns = [rows.column(name) for name in self.keys]
        valid = [np.asarray(column.is_valid()) for column in columns if column.null_count]
        return reduce(np.logical_and, valid) if valid else None

    def words(self, rows: pa.RecordBatch) -> Ints:
        """Return one word per key: the key itself if it is `exact`, else its hash. No key may be null."""
        if self.exact:
            column = read_column(rows.column(self.keys[0]), self.codec.types[0])
            if isinstance(column, WordColumn):
                return column.words[0]
        return self.encode(rows).hashes.view(np.int64)

    def encode(self, rows: pa.RecordBatch) -> KeyBatch:
        """Return the keys of rows that have at least the key columns."""
        return self.codec.encode([rows.column(name) for name in self.keys])

    def locate(self, rows: pa.RecordBatch) -> Positions:
        """Return where the keys of rows lie that have at least the key columns; null is a key like others."""
        return positions_of(self.hashes(rows))

    def hashes(self, rows: pa.RecordBatch) -> NDArray[np.uint64]:
        """Return the hashes of the keys of rows that have at least the key columns; null is a key like others."""
        return self.codec.hash([rows.column(name) for name in self.keys], rows.num_rows)

    def hashes_of(self, words: Ints) -> NDArray[np.uint64]:
        """Return the hashes of the keys that `words` was returned for."""
        if not self.exact:
            return words.view(np.uint64)
        return self.codec.hash(self.codec.decode(words.reshape(-1, 1)), words.size)

    def locate_words(self, words: Ints) -> Positions:
        """Return where the keys lie that `words` was returned for."""
        return positions_of(self.hashes_of(words))


@dataclass(frozen=True, slots=True)
class Arrived:
    """Rows of ``TimedSide.fields``, their event times, and what was computed beside them."""

    rows: pa.RecordBatch
    times_us: Ints
    beside: pa.Array | None = None

    def filter(self, chosen: Mask) -> "Arrived":
        """Return the chosen rows."""
        mask = pa.array(chosen)
        beside = None if self.beside is None else self.beside.filter(mask)
        return Arrived(self.rows.filter(mask), self.times_us[chosen], beside)


class TimedSide(JoinSide):
    """One input, with event time, of a join whose rows wait for the watermark."""

    @property
    def time(self) -> TimeColumn:
        """The input's event time."""
        if self.schema.time is None:
            raise BugError("an input of a join by event time has none")
        return self.schema.time

    def arrive(self, context: OperatorContext, rows: pa.RecordBatch, times_us: Ints) -> Arrived:
        """Compute what is kept of rows, null keys included; those for which that fails are counted as dead letters."""
        able, computed = evaluate(context, self._projection, rows)
        if computed is None:
            return Arrived(pa.RecordBatch.from_pylist([], schema=self.fields), np.empty(0, np.int64))
        if able.num_rows < rows.num_rows:
            times_us = event_times_us(able, self.time)
        columns = computed.columns
        beside = columns.pop() if len(columns) > len(self.fields) else None
        return Arrived(pa.RecordBatch.from_arrays(columns, schema=self.fields), times_us, beside)


def join_sides(
    spec: TwoSided, left: StreamSchema, right: StreamSchema, name: str, of: Callable[..., S], beside: Expr | None = None
) -> tuple[S, S]:
    """Return both sides of a join, each with the columns that the output needs; ``beside`` is computed of the left.

    Raises:
        PlanError: see `key_types`.
    """
    types = key_types(spec, left, right, name)
    return (
        of(left, side_columns(spec, 0), spec.left_keys, types, name, beside),
        of(right, side_columns(spec, 1), spec.right_keys, types, name),
    )


class PairColumns:
    """The columns that a join puts out of the rows of both sides, and the buckets of their keys if it says these."""

    def __init__(self, output: Output, fields: pa.Schema) -> None:
        """``fields`` are those of the output's columns."""
        self._sources = [(side, column) for _, side, column in output]
        self._fields = fields

    def build(
        self, left: pa.RecordBatch | None, right: pa.RecordBatch | None, count: int, buckets: pa.Array | None = None
    ) -> pa.RecordBatch:
        """Return ``count`` pairs of left[i] and right[i]; None stands for a side that has no partners.

        Without ``buckets`` they are no sample.
        """
        columns = []
        for (side, column), field in zip(self._sources, self._fields, strict=True):
            if column == BUCKET:
                columns.append(no_buckets(count) if buckets is None else buckets)
                continue
            rows = right if side else left
            columns.append(pa.nulls(count, field.type) if rows is None else rows.column(column))
        return pa.RecordBatch.from_arrays(columns, schema=self._fields)


def taken(rows: pa.RecordBatch, positions: Ints) -> pa.RecordBatch:
    """Return the rows at these positions; neighbours in their order are not copied."""
    if positions.size and positions[-1] - positions[0] == positions.size - 1 and (np.diff(positions) == 1).all():
        return rows.slice(int(positions[0]), positions.size)
    return rows.take(pa.array(positions))
