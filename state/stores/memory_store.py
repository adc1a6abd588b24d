"""Keyed state in memory only: the contract of `store` under a byte budget."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.errors import BugError, SchemaError
from penstock.state.keys.arrays import NO_INTEGERS
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.store import (
    BagCells,
    KeyedTable,
    Locate,
    RowLog,
    SlotLookup,
    Slots,
    StateStore,
    TableSpec,
    TableStatistics,
    TextCells,
    VectorCells,
)
from penstock.state.tables.bag_cells import MemoryBagCells
from penstock.state.tables.budget import Account, Budget
from penstock.state.tables.image import EMPTY, SLOT, StoreImage, dumped_schema
from penstock.state.tables.key_index import KeyIndex, estimate_distinct
from penstock.state.tables.memory_columns import Column, MemoryFixedColumn, MemoryObjectColumn, new_column
from penstock.state.tables.prefix_lists import PrefixLists
from penstock.state.tables.row_log import MemoryRowLog
from penstock.state.tables.text_cells import MemoryTextCells
from penstock.state.tables.vector_cells import MemoryVectorCells

C = TypeVar("C")

_SCAN_ROWS = 32_768


class MemoryStore(StateStore):
    """Tables and logs of one operator instance, in memory.

    ``owner`` names the operator in errors; ``budget_bytes`` bounds all of them together (None: unbounded). Allocated
    bytes count, so the limit holds for arrays that have just doubled. The rows of a name in ``image`` are loaded when
    it is opened.
    """

    def __init__(self, owner: str, budget_bytes: int | None = None, image: StoreImage = EMPTY) -> None:
        self._budget = Budget(owner, budget_bytes)
        self._image = image
        self._tables: dict[str, MemoryTable] = {}
        self._logs: dict[str, MemoryRowLog] = {}

    def table(self, spec: TableSpec) -> "MemoryTable":
        """Open (or create) a table; asking again for the same name returns the same table."""
        table = self._tables.get(spec.name)
        if table is None:
            self._refuse_if_taken(spec.name, self._logs)
            table = MemoryTable(spec, Account(self._budget))
            loaded = list(self._image.table_rows(self._budget.owner, spec.name, table.schema))
            table.reserve(sum(rows.num_rows for rows in loaded))
            for rows in loaded:
                table.load(rows)
            self._tables[spec.name] = table
        elif table.spec != spec:
            raise SchemaError(
                f"operator {self._budget.owner!r} opens its table {spec.name!r} with other keys or columns than before."
            )
        return table

    def log(self, name: str, schema: pa.Schema, locate: Locate | None = None) -> RowLog:
        """Open (or create) a log of rows; asking again for the same name returns the same log."""
        log = self._logs.get(name)
        if log is None:
            self._refuse_if_taken(name, self._tables)
            log = MemoryRowLog(schema, Account(self._budget), locate)
            for rows, positions in self._image.log_rows(self._budget.owner, name, schema):
                log.append(rows, positions)
            self._logs[name] = log
        elif not log.schema.equals(schema):
            raise SchemaError(
                f"operator {self._budget.owner!r} opens its log {name!r} with another schema than before."
            )
        return log

    def set_budget(self, budget_bytes: int | None) -> None:
        """Change the byte budget of all tables and logs together, at once.

        Raises:
            StateBudgetError: they already hold more; the old budget stays.
        """
        self._budget.set_limit(budget_bytes)

    def bytes_used(self) -> int:
        """Return the bytes that tables and logs hold."""
        return self._budget.used_bytes

    def names(self) -> Sequence[str]:
        """Return the names of tables and logs, sorted."""
        return sorted([*self._tables, *self._logs])

    def contents(self, *, shared: bool = False) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield every lasting table's and log's name with its rows.

        If they may be ``shared`` they are right only until the store is changed.
        """
        for name, table in self._tables.items():
            if table.spec.lasting:
                for rows in table.dump(shared=shared):
                    yield name, rows
        for name, log in self._logs.items():
            for rows in log.dump():
                yield name, rows

    def forget_image(self) -> None:
        """Release the image from which tables and logs were loaded, once all of them are open.

        Raises:
            SchemaError: one was not opened again, so that its rows would be lost.
        """
        unopened = sorted(self._image.names() - self._tables.keys() - self._logs.keys())
        if unopened:
            raise SchemaError(
                f"the state of operator {self._budget.owner!r} was written by another pipeline: nothing reads its "
                f"{', '.join(unopened)} now. Restore with the pipeline that wrote it, or begin the operator without "
                f"state, by another .name(...) or with drop_state={self._budget.owner!r}."
            )
        self._image = EMPTY

    def changes(self) -> int | None:
        """Return a number that grows whenever `contents` may change.

        None: unknown, as there are rows of logs, or values written without the store's knowledge.
        """
        if any(log.rows() for log in self._logs.values()):
            return None
        changes = 0
        for table in self._tables.values():
            if table.spec.lasting:
                if not table.tells_changes():
                    return None
                changes += table.changes()
        return changes

    def rows_of_logs(self) -> Mapping[str, int] | None:
        """Return how many rows each log has, numbered from 0 on; None if lasting tables hold something, or gaps are.

        The rows of its logs are then the whole content of the store.
        """
        if any(table.spec.lasting for table in self._tables.values()):
            return None
        if any(log.has_gaps() for log in self._logs.values()):
            return None
        return {name: log.rows() for name, log in self._logs.items()}

    def appended(self, before: Mapping[str, int]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield, as `contents` does, the rows added to each log since `rows_of_logs` returned ``before``."""
        for name, log in self._logs.items():
            for rows in log.dump_from(before[name]):
                yield name, rows

    def _refuse_if_taken(self, name: str, others: dict[str, Any]) -> None:
        if name in others:
            raise SchemaError(f"operator {self._budget.owner!r} uses the name {name!r} for both a table and a log.")


class MemoryTable(KeyedTable):
    """One table in memory: an index from keys to slots, and columns that grow with it."""

    def __init__(self, spec: TableSpec, account: Account) -> None:
        self.spec = spec
        self._account = account
        self._codec = KeyCodec(spec.key_types)
        self._columns = {name: new_column(column, account) for name, column in spec.columns.items()}
        self._texts = [column for column in self._columns.values() if isinstance(column, MemoryTextCells)]
        self._changes = 0
        self._objects = [column for column in self._columns.values() if isinstance(column, MemoryObjectColumn)]
        self._unmeasured_rows = 0
        self._lists = PrefixLists(account, ordered=True) if spec.prefixed else None
        # The index must not refer to the table, or only the collector would free both.
        self._index = KeyIndex(self._codec, self._lists, account, partial(_grow, tuple(self._columns.values())))

    @property
    def schema(self) -> pa.Schema:
        """The fields of `dump`, with metadata from the spec."""
        return dumped_schema(self.spec, self._dump(NO_INTEGERS).schema)

    def upsert(self, keys: KeyBatch, prefix: NDArray[np.int64] | None = None) -> SlotLookup:
        """Find the slot of every row's key, creating the absent ones.

        Raises:
            StateBudgetError: no room for all of them; then none was created.
        """
        if self._objects:
            self._measure(len(keys))
        located = SlotLookup(*self._index.locate(keys, prefix, create=True))
        self._changes += len(located.fresh) > 0
        return located

    def find(self, keys: KeyBatch, prefix: NDArray[np.int64] | None = None) -> Slots:
        """Find the slot of every row's key; -1 where there is none."""
        return self._index.locate(keys, prefix, create=False)[0]

    def reserve(self, rows: int) -> None:
        """Make room for so many more keys at once, rather than by doubling again and again."""
        self._index.reserve(rows)

    def expect(self, keys: KeyBatch) -> None:
        """Make room at once for about as many keys as differ among these, none of which may be there."""
        self.reserve(estimate_distinct(keys.hashes))

    def remove(self, slots: Slots) -> None:
        """Forget these slots (each at most once, all live)."""
        self._changes += 1
        self._index.remove(slots)
        for column in self._columns.values():
            column.clear(slots)

    def array(self, column: str) -> NDArray[Any]:
        """Return the array of a `Fixed` column."""
        return self._column(column, MemoryFixedColumn).array

    def text(self, column: str) -> TextCells:
        """Return the cells of a `Text` column."""
        return self._column(column, MemoryTextCells)

    def bag(self, column: str) -> BagCells:
        """Return the cells of a `BagColumn` column."""
        return self._column(column, MemoryBagCells)

    def objects(self, column: str) -> list[Any]:
        """Return the list of an `ObjectColumn`, indexed by slot."""
        return self._column(column, MemoryObjectColumn).objects

    def vectors(self, column: str) -> VectorCells:
        """Return the cells of a `VectorColumn`."""
        return self._column(column, MemoryVectorCells)

    def key_columns(self, slots: Slots) -> list[pa.Array]:
        """Return the key columns of these slots, in their declared types."""
        return self._index.key_columns(slots)

    def prefixes(self, slots: Slots) -> NDArray[np.int64]:
        """Return the prefix of each slot."""
        self._prefix_lists()
        return self._index.prefixes(slots)

    def live(self) -> Slots:
        """Return all live slots, ascending."""
        return self._index.live()

    def first_prefix(self) -> int | None:
        """Return the smallest live prefix, or None."""
        return self._prefix_lists().first()

    def slots_below(self, prefix: int) -> Slots:
        """Return the live slots whose prefix is < `prefix`, ordered by prefix."""
        return self._prefix_lists().below(prefix)

    def slots_between(self, first: int, end: int) -> Slots:
        """Return the live slots with first <= prefix < end, ordered by prefix."""
        return self._prefix_lists().between(first, end)

    def dump(self, *, shared: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in batches of at most 32,768; if they may be ``shared`` they change with the table."""
        slots, schema = self._index.live(), self.schema
        # Without a free slot the rows of a batch lie together, and need not be gathered.
        shared = shared and len(slots) > 0 and int(slots[-1]) == len(slots) - 1
        for start in range(0, max(1, len(slots)), _SCAN_ROWS):
            rows = self._dump(slots[start : start + _SCAN_ROWS], shared=shared)
            yield pa.RecordBatch.from_arrays(rows.columns, schema=schema)

    def load(self, rows: pa.RecordBatch) -> None:
        """Store what `dump` of a table with the same spec yielded, without slots; none of its keys may be here yet."""
        columns = list(rows.columns)
        prefix = columns.pop(0).to_numpy() if self.spec.prefixed else None
        key_count = len(self.spec.key_types)
        keys = self._codec.encode(columns[:key_count], rows.num_rows)
        located = self.upsert(keys, prefix)
        if len(located.fresh) != rows.num_rows:
            raise BugError(f"rows loaded into table {self.spec.name!r} have keys that are there.")
        for column, cells in zip(self._columns.values(), columns[key_count:], strict=True):
            column.load(located.slots, cells)

    def tells_changes(self) -> bool:
        """Return whether `changes` counts them all; writes to arrays, bags and objects are not counted."""
        return len(self._texts) == len(self._columns) or len(self._index) == 0

    def changes(self) -> int:
        """Return the number of keys added or removed, and of texts written."""
        return self._changes + sum(column.changes for column in self._texts)

    def statistics(self) -> TableStatistics:
        """Return the table's present sizes."""
        for column in self._objects:
            column.measure()
        return TableStatistics(len(self._index), self._account.used_bytes, self._account.budget.limit_bytes)

    def _measure(self, rows: int) -> None:
        """Measure all objects again after as many rows as there are objects: O(1) per row."""
        if self._unmeasured_rows >= len(self._index):
            for column in self._objects:
                column.measure()
            self._unmeasured_rows = 0
        self._unmeasured_rows += rows

    def _dump(self, slots: Slots, *, shared: bool = False) -> pa.RecordBatch:
        """Return these rows; ``shared``: their slots follow each other, and columns may show the table's own memory."""
        arrays = self._index.key_columns(slice(int(slots[0]), int(slots[-1]) + 1) if shared else slots)
        names = [f"key_{index}" for index in range(len(arrays))]
        if self.spec.prefixed:
            arrays.insert(0, pa.array(self._index.prefixes(slots)))
            names.insert(0, "prefix")
        for column in self._columns.values():
            if shared and isinstance(column, MemoryFixedColumn):
                arrays.append(column.view(int(slots[0]), len(slots)))
            else:
                arrays.append(column.dump(slots))
        return pa.RecordBatch.from_arrays([pa.array(slots), *arrays], [SLOT, *names, *self._columns])

    def _prefix_lists(self) -> PrefixLists:
        if self._lists is None:
            raise BugError(f"table {self.spec.name!r} is not prefixed.")
        return self._lists

    def _column(self, name: str, kind: type[C]) -> C:
        column = self._columns.get(name)
        if not isinstance(column, kind):
            raise BugError(
                f"table {self.spec.name!r} has no {kind.__name__} named {name!r}, only {sorted(self._columns)}."
            )
        return column


def _grow(columns: Sequence[Column], slots: int) -> None:
    for column in columns:
        column.grow(slots)
