"""One value per slot of a state table: numbers in arrays, text in text cells, all other types in a log of rows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import ColumnSpec, FixedColumn, KeyedTable, Slots, StateStore, TextColumn
from penstock.state.tables.image import positions_of

_NULL = "null"


class CellColumns(ABC):
    """Cells of one type. Make it, open the table with its `columns`, then `bind`."""

    def __init__(self, name: str, type_: pa.DataType) -> None:
        """The cells called ``name`` in their table."""
        self.name = name
        self.type = type_
        self._table: KeyedTable

    @abstractmethod
    def columns(self) -> Mapping[str, ColumnSpec]:
        """Return the columns of the table that hold the cells."""

    def bind(self, store: StateStore, table: KeyedTable) -> None:
        """Work on this table of this store."""
        self._table = table

    @abstractmethod
    def read(self, slots: Slots) -> pa.Array:
        """Return the values of slots, all of which were written."""

    @abstractmethod
    def write(self, slots: Slots, values: pa.Array, keys: KeyBatch) -> None:
        """Replace the values of slots, each once; ``keys`` are theirs."""

    def clear(self, slots: Slots) -> None:
        """Give back what slots hold beside the table, which is about to forget them."""


class FixedCells(CellColumns):
    """Numbers, times and booleans."""

    def __init__(self, name: str, type_: pa.DataType) -> None:
        super().__init__(name, type_)
        if pt.is_boolean(type_):
            self._raw = pa.int8()
        elif pt.is_integer(type_) or pt.is_floating(type_):
            self._raw = type_
        else:
            self._raw = pa.int64() if type_.bit_width == 64 else pa.int32()
        self._nulls = f"{name}{_NULL}"

    def columns(self) -> Mapping[str, ColumnSpec]:
        """Return an array of the raw values and one of which are null."""
        return {
            self.name: FixedColumn(np.dtype(self._raw.to_pandas_dtype())),
            self._nulls: FixedColumn(np.dtype(np.int8)),
        }

    def read(self, slots: Slots) -> pa.Array:
        """Return the values of slots."""
        nulls: NDArray[np.int8] = self._table.array(self._nulls)[slots]
        raw = pa.array(self._table.array(self.name)[slots], mask=nulls != 0 if nulls.any() else None)
        if pt.is_boolean(self.type):
            return raw.cast(pa.bool_())
        return raw if raw.type == self.type else raw.view(self.type)

    def write(self, slots: Slots, values: pa.Array, keys: KeyBatch) -> None:
        """Replace the values of slots."""
        raw = values.cast(self._raw) if pt.is_boolean(self.type) else values.view(self._raw)
        nulls = np.zeros(len(values), np.int8)
        if values.null_count:
            nulls[:] = values.is_null().to_numpy(zero_copy_only=False)
            raw = raw.fill_null(0)
        self._table.array(self._nulls)[slots] = nulls
        self._table.array(self.name)[slots] = raw.to_numpy()


class TextCellsOf(CellColumns):
    """Strings and binaries."""

    def columns(self) -> Mapping[str, ColumnSpec]:
        """Return a text column."""
        return {self.name: TextColumn(self.type)}

    def read(self, slots: Slots) -> pa.Array:
        """Return the values of slots."""
        return self._table.text(self.name).get(slots)

    def write(self, slots: Slots, values: pa.Array, keys: KeyBatch) -> None:
        """Replace the values of slots."""
        self._table.text(self.name).set(slots, values)


class LogCells(CellColumns):
    """Values of any other type: rows of a log, whose ids plus one the table holds."""

    def __init__(self, name: str, type_: pa.DataType, log: str) -> None:
        super().__init__(name, type_)
        self._log_name = log

    def columns(self) -> Mapping[str, ColumnSpec]:
        """Return the column of ids."""
        return {self.name: FixedColumn(np.dtype(np.int64), refers=self._log_name, base=1)}

    def bind(self, store: StateStore, table: KeyedTable) -> None:
        """Open the log beside the table."""
        super().bind(store, table)
        self._fields = pa.schema([pa.field(self.name, self.type)])
        self._log = store.log(self._log_name, self._fields)

    def read(self, slots: Slots) -> pa.Array:
        """Return the values of slots."""
        return self._log.take(self._table.array(self.name)[slots] - 1).column(0)

    def write(self, slots: Slots, values: pa.Array, keys: KeyBatch) -> None:
        """Replace the values of slots."""
        self.clear(slots)
        rows = pa.RecordBatch.from_arrays([values], schema=self._fields)
        self._table.array(self.name)[slots] = self._log.append(rows, positions_of(keys.hashes)) + 1

    def clear(self, slots: Slots) -> None:
        """Forget the rows of these slots."""
        ids = self._table.array(self.name)[slots]
        self._log.remove(ids[ids > 0] - 1)


def cells_of(name: str, type_: pa.DataType, table: str) -> CellColumns:
    """Return cells for values of a type, to be called ``name`` in this table."""
    if pt.is_string(type_) or pt.is_binary(type_):
        return TextCellsOf(name, type_)
    times = pt.is_temporal(type_) and not pt.is_interval(type_)
    if pt.is_boolean(type_) or pt.is_integer(type_) or pt.is_float32(type_) or pt.is_float64(type_) or times:
        return FixedCells(name, type_)
    return LogCells(name, type_, f"{table} {name}")
