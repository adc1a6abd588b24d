"""The contract of keyed state: tables reached by batches of keys, column by column.

An operator owns tables; a table maps a key (and an optional leading int64 *prefix*: a pane, a window or a timer's
time) to a **slot**, and every column of the table is addressed by slots.
A backend decides what lies below: only memory (`memory_store`), or pages on disk behind this same face.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.columns import Floats
from penstock.state.keys.batch_keys import KeyBatch

Slots = NDArray[np.int64]

Positions = NDArray[np.uint32]
"""Positions of keys on the ring that key groups cut into ranges: the upper 32 bits of their hashes."""

Locate = Callable[[pa.RecordBatch], Positions]


@dataclass(frozen=True, slots=True)
class FixedColumn:
    """A column of numbers: one array of this dtype, indexed by slot.

    One that ``refers`` to a log or table of the store holds its row ids or slots plus ``base``; what is below ``base``
    refers to nothing. Ids and slots are numbered anew when a store is loaded, and such columns with them.
    """

    dtype: np.dtype[Any]
    refers: str | None = None
    base: int = 0


INTEGER = FixedColumn(np.dtype(np.int64))


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of nullable strings or binaries of any length."""

    type: pa.DataType


@dataclass(frozen=True, slots=True)
class BagColumn:
    """A column whose cell is a multiset of values of this type (value -> signed count).

    With several ``lanes`` (at most 63) a value has as many counts: that many multisets over much the same values. What
    is not ``counted`` is a set: a value is in it (count 1) or not, and never leaves it.
    """

    type: pa.DataType
    lanes: int = 1
    counted: bool = True


@dataclass(frozen=True, slots=True)
class ObjectColumn:
    """A column of opaque objects (sketches) that serialise themselves.

    ``encode`` (to bytes) and ``decode`` must be exact inverses; ``size`` estimates an object's bytes for the budget and
    is called again from time to time, since objects change in place.
    """

    encode: Any
    decode: Any
    size: Any


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """A column of ``width`` doubles a cell that few jobs ever write: it takes no memory and no time before."""

    width: int


ColumnSpec = FixedColumn | TextColumn | BagColumn | ObjectColumn | VectorColumn


@dataclass(frozen=True, slots=True)
class TableSpec:
    """An operator's specification of a table: the key's types and the columns.

    ``prefixed`` tables take one int64 before the key and can list and drop slots by it, in order.

    When state is split by key group a row goes where its key belongs, without the first ``beside`` key columns, which
    are none of the operator's, or by those key columns alone that ``placed_by`` numbers; or where the row belongs that
    the column ``follows`` refers to. A table that is not ``lasting`` holds nothing from one call of its operator to
    the next, or what the operator makes anew when it opens: it is not dumped.
    """

    name: str
    key_types: tuple[pa.DataType, ...]
    columns: Mapping[str, ColumnSpec] = field(default_factory=dict)
    prefixed: bool = False
    beside: int = 0
    follows: str | None = None
    lasting: bool = True
    placed_by: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class SlotLookup:
    """The slots of a batch of keys.

    ``slots`` has one entry per row. ``fresh`` lists the slots that this call created, each once, in order of first
    appearance; their fixed cells are zero, their text null, their bags empty.
    """

    slots: Slots
    fresh: Slots


@dataclass(frozen=True, slots=True)
class Accesses:
    """Accesses to parts of state: ``count`` since the store was opened, ``hits`` of them in memory.

    ``waited_ns`` is the time spent fetching the others, and letting go of what was in their way; ``stalled_ns`` that
    in which what was to be written waited for what was written before.
    """

    count: int
    hits: int
    waited_ns: int
    stalled_ns: int = 0


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Sizes of a table: live slots, bytes in use, and its budget in bytes (None: unbounded)."""

    rows: int
    bytes_used: int
    budget_bytes: int | None


class KeyedTable(Protocol):
    """Keyed columns of one operator instance.

    Arrays handed out stay valid until the next `upsert` on the same table. Only the owning instance's thread calls.
    """

    spec: TableSpec

    def upsert(self, keys: KeyBatch, prefix: NDArray[np.int64] | None = None) -> SlotLookup:
        """Find the slot of every row's key, creating the absent ones.

        Raises:
            StateBudgetError: the table (with its siblings in the store) would exceed the budget; nothing was created.
        """

    def find(self, keys: KeyBatch, prefix: NDArray[np.int64] | None = None) -> Slots:
        """Find the slot of every row's key; -1 where there is none."""

    def remove(self, slots: Slots) -> None:
        """Remove these slots (each at most once, all live); a later upsert may reuse them."""

    def array(self, column: str) -> NDArray[Any]:
        """Return the array of a `FixedColumn` column, length >= every slot + 1; write through it freely."""

    def text(self, column: str) -> "TextCells":
        """Return the cells of a `TextColumn` column."""

    def bag(self, column: str) -> "BagCells":
        """Return the cells of a `BagColumn` column."""

    def objects(self, column: str) -> list[Any]:
        """Return the list of an `ObjectColumn` column, indexed by slot; None where nothing was stored."""

    def vectors(self, column: str) -> "VectorCells":
        """Return the cells of a `VectorColumn` column."""

    def key_columns(self, slots: Slots) -> list[pa.Array]:
        """Return the key columns of these slots, in their declared types."""

    def prefixes(self, slots: Slots) -> NDArray[np.int64]:
        """Return the prefix of each slot (prefixed tables only)."""

    def live(self) -> Slots:
        """Return all live slots, in no particular order."""

    def first_prefix(self) -> int | None:
        """Return the smallest live prefix, or None (prefixed tables only)."""

    def slots_below(self, prefix: int) -> Slots:
        """Return the live slots whose prefix is < `prefix`, ordered by prefix (prefixed tables only).

        Cost is proportional to the answer and the number of distinct prefixes, never to the whole table.
        """

    def slots_between(self, first: int, end: int) -> Slots:
        """Return the live slots with first <= prefix < end, ordered by prefix (prefixed tables only)."""

    def dump(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, at least one batch (of none): slot, prefix, key columns, then the columns by name.

        The schema's metadata tell `image` how to load them elsewhere.
        """

    def load(self, rows: pa.RecordBatch) -> None:
        """Store what `dump` of a table with the same spec yielded, without the slots; none of its keys may be here yet.

        Into a table that was always empty, rows get the slots 0, 1, 2... in order.

        Raises:
            StateBudgetError: the table (with its siblings in the store) would exceed the budget.
        """

    def expect(self, keys: KeyBatch) -> None:
        """Make room at once for about as many keys as differ among these, none of which may be there."""

    def statistics(self) -> TableStatistics:
        """Return the table's present sizes."""


class TextCells(Protocol):
    """The cells of one `TextColumn` column."""

    def get(self, slots: Slots) -> pa.Array:
        """Return the values of these slots (null where none was set)."""

    def set(self, slots: Slots, values: pa.Array) -> None:
        """Store values[i] in slots[i]; a slot that repeats keeps its last value.

        Raises:
            StateBudgetError: there is no room for the values; nothing was stored.
        """


class VectorCells(Protocol):
    """The cells of one `VectorColumn` column."""

    @property
    def is_used(self) -> bool:
        """Whether any vector may be other than zero."""

    def rows(self) -> NDArray[np.float64]:
        """Return the vectors, one row by slot, to be written through as `KeyedTable.array`; from now on they are used.

        Raises:
            StateBudgetError: there is no room for them; nothing was allocated.
        """


class BagCells(Protocol):
    """The cells of one `BagColumn`: multisets of values, compared as keys are (one NaN, 1.0 is 1.00).

    With several lanes ``distinct`` and counts have a second axis for them.
    """

    def add(
        self,
        slots: Slots,
        values: pa.Array,
        counts: NDArray[np.int64] | None = None,
        lanes: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int8]:
        """Add counts[i] (default 1, may be negative) of values[i] to the bag of slots[i]; null values count as values.

        Bit j of lanes[i] (default: the lowest) says whether lane j counts the row. A value all of whose counts reach
        zero is forgotten; a negative count is kept (a retraction before its insert). A set takes no counts.

        Returns:
            By how much each row changed the number of distinct values of its slot, in the lowest lane.

        Raises:
            StateBudgetError: there is no room for the values; nothing was added.
        """

    def distinct(self, slots: Slots) -> NDArray[np.int64]:
        """Return how many values have a positive count in each slot's bag."""

    def items(self, slots: Slots) -> tuple[NDArray[np.int64], pa.Array, NDArray[np.int64]]:
        """Return (position in `slots`, value, count) of every item of these bags, grouped by position."""

    def absorb(self, into: Slots, other: "BagCells", slots: Slots) -> None:
        """Add every item of other's slots[i] to the bag of into[i]."""


class StateStore(Protocol):
    """The tables and logs of one operator instance, under one byte budget."""

    def table(self, spec: TableSpec) -> KeyedTable:
        """Open (or create) a table; asking again for the same name returns the same table.

        Raises:
            SchemaError: the name exists with another spec.
        """

    def log(self, name: str, schema: pa.Schema, locate: "Locate | None" = None) -> "RowLog":
        """Open (or create) a log of rows; asking again for the same name returns the same log.

        ``locate`` returns the key positions of rows, for a log whose rows are appended without them.

        Raises:
            SchemaError: the name exists with another schema.
        """

    def set_budget(self, budget_bytes: int | None) -> None:
        """Change the byte budget of all tables and logs together, at once.

        Raises:
            StateBudgetError: they hold more and nothing lies below to take it; the old budget stays.
        """

    def bytes_used(self) -> int:
        """Return the bytes that tables and logs hold."""

    def names(self) -> Sequence[str]:
        """Return the names of tables and logs, sorted."""

    def contents(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield every lasting table's and log's name with its rows, as their ``dump`` does."""

    def forget_image(self) -> None:
        """Release the image from which tables and logs were loaded, once all of them are open. By default nothing.

        Raises:
            SchemaError: one was not opened again, so that its rows would be lost.
        """
        return

    def accesses(self) -> Accesses | None:
        """Return the accesses to state; None: all of it is in memory, and none are counted."""
        return None

    def reuse(self) -> Floats | None:
        """Return accesses by `REUSE_BOUNDS`: bytes of state used since what they reach was; None: none are counted."""
        return None

    def group_bytes(self) -> Floats | None:
        """Return the bytes of state, in memory and below it, of each key group; None: they are not known by group."""
        return None


class RowLog(Protocol):
    """Whole rows kept in chunks, addressed by int64 row ids that never change.

    Joins, sorting buffers and count windows keep rows here; a table's fixed columns hold the ids or link them.
    """

    def append(self, rows: pa.RecordBatch, positions: Positions | None = None) -> NDArray[np.int64]:
        """Store rows and return their ids, consecutive and ascending over the life of the log, from 0 on.

        ``positions`` say which keys the rows belong to; all rows of a log come with them or none.

        Raises:
            SchemaError: the rows have another schema than the log.
            StateBudgetError: there is no room for the rows; nothing was stored.
        """

    def take(self, ids: NDArray[np.int64], columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return these rows, in this order, repeats allowed; every id must be live."""

    def remove(self, ids: NDArray[np.int64]) -> None:
        """Remove rows; their bytes are freed once enough of a chunk is gone."""

    def live(self) -> NDArray[np.int64]:
        """Return the ids of all rows kept, ascending."""

    def dump(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows by ascending id, at least one batch (of none): id, key position, then the columns.

        Rows that belong to no key have the position 0.
        """

    def bytes_used(self) -> int:
        """Return the bytes held."""
