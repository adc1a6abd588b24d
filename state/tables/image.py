"""Images of stores: self-describing record batches that can be loaded elsewhere, split or merged.

A store's dump is one `StoreDump`. An image of several dumps combines several instances (or buckets); row ids and slots,
which each of them numbered separately, are renumbered, and so are the columns that refer to them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.errors import BugError, SchemaError
from penstock.state.kernels.images import renumber
from penstock.state.keys.arrays import read_only
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import FixedColumn, Positions, TableSpec

SLOT, ID, POSITION, PREFIX = "$slot", "$id", "$position", "prefix"
"""Names of the columns that a dump has before the rows' own."""

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

Chosen = Callable[[Positions], Mask]
"""Says of key positions which are wanted."""

_WAYS_OUT = (
    "restore with the pipeline that wrote it, or begin the operator without state, by another .name(...) or with "
    "drop_state={owner!r}"
)

_KIND, _REFERS, _BASE = b"penstock", b"refers", b"base"


class TableForm(msgspec.Struct, frozen=True):
    """The description of a table in its dump; see `TableSpec`."""

    keys: int
    prefixed: bool = False
    beside: int = 0
    follows: str | None = None
    placed_by: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class StoreDump:
    """The dump of one store: the batches of every table and log, in order.

    ``lenient``: rows of logs that lack a nullable column have null in it.
    """

    batches: Mapping[str, Sequence[pa.RecordBatch]]
    lenient: bool = False


def dump_of(rows: Iterable[tuple[str, pa.RecordBatch]]) -> StoreDump | None:
    """Return the dump of these rows, each batch with the name of its table or log; None: there are none."""
    batches: dict[str, list[pa.RecordBatch]] = {}
    for name, batch in rows:
        batches.setdefault(name, []).append(batch)
    return StoreDump(batches) if batches else None


def chosen_of(part: StoreDump, chosen: Chosen) -> StoreDump:
    """Return what a dump has of the keys that are chosen, numbered as before: with gaps."""
    image = StoreImage([part], chosen)
    batches = {name: image.chosen_batches(0, name) for name in part.batches}
    return StoreDump(batches, part.lenient)


def is_of_one_key(part: StoreDump) -> bool:
    """Return whether all rows of a dump have one position, so that no ranges of keys keep them apart."""
    seen: set[int] = set()
    for positions in filter(len, map(_positions, chain.from_iterable(part.batches.values()))):
        seen |= {int(positions.min()), int(positions.max())}
        if len(seen) > 1:
            return False
    return True


def referring(field: pa.Field, to: str, base: int = 0) -> pa.Field:
    """Return a field of a log whose values are row ids or slots of ``to`` plus ``base``; see `FixedColumn`."""
    return field.with_metadata({_REFERS: to.encode(), _BASE: str(base).encode()})


def dumped_schema(spec: TableSpec, schema: pa.Schema) -> pa.Schema:
    """Return the schema of a table's dump with metadata from the spec."""
    for name, column in spec.columns.items():
        if isinstance(column, FixedColumn) and column.refers is not None:
            index = schema.get_field_index(name)
            schema = schema.set(index, referring(schema.field(index), column.refers, column.base))
    form = TableForm(len(spec.key_types), spec.prefixed, spec.beside, spec.follows, spec.placed_by)
    return schema.with_metadata({_KIND: msgspec.json.encode(form)})


def table_form(schema: pa.Schema) -> TableForm | None:
    """Return the description in a dumped table's schema; None: it is a log."""
    encoded = (schema.metadata or {}).get(_KIND)
    return None if encoded is None else msgspec.json.decode(encoded, type=TableForm)


class StoreImage:
    """Dumps to load from, and the keys chosen from them (None: all)."""

    def __init__(self, parts: Sequence[StoreDump] = (), chosen: Chosen | None = None) -> None:
        """No key may be in two parts."""
        self._parts = tuple(parts)
        self._chosen = chosen
        self._kept: dict[tuple[int, str], Ints] = {}
        self._masks: dict[tuple[int, str], list[Mask]] = {}

    def names(self) -> frozenset[str]:
        """Return the names of all tables and logs."""
        return frozenset(name for part in self._parts for name in part.batches)

    def table_rows(self, owner: str, name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the chosen rows of a table for `KeyedTable.load`.

        Raises:
            SchemaError: the table, whose dump has ``schema`` now, had other keys or columns.
        """
        for index, part in enumerate(self._parts):
            batches = part.batches.get(name, ())
            if batches:
                _check_table(owner, name, schema, batches[0].schema)
            for rows in self._wanted(index, name, batches):
                yield rows.drop_columns([SLOT])

    def log_rows(self, owner: str, name: str, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, Positions]]:
        """Yield the chosen rows of a log and their positions; see `StoreDump.lenient` for columns that were not there.

        Raises:
            SchemaError: a column was of another type, or was not there.
        """
        for index, part in enumerate(self._parts):
            for rows in self._wanted(index, name, part.batches.get(name, ())):
                if rows.num_rows:
                    columns = [_log_column(owner, name, rows, field, part.lenient) for field in schema]
                    positions = rows.column(POSITION).to_numpy()
                    yield pa.RecordBatch.from_arrays(columns, schema=schema), positions

    def chosen_batches(self, index: int, name: str) -> Sequence[pa.RecordBatch]:
        """Return the batches of a table or log of a part, numbered as they are there, and at least one of them."""
        batches, masks = self._parts[index].batches[name], self._mask(index, name)
        if masks is None:
            return batches
        chosen = [rows.filter(pa.array(mask)) for rows, mask in zip(batches, masks, strict=True)]
        return [rows for rows in chosen if rows.num_rows] or chosen[:1]

    def _wanted(self, index: int, name: str, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        masks = self._mask(index, name)
        for place, rows in enumerate(batches):
            wanted = rows if masks is None else rows.filter(pa.array(masks[place]))
            yield self._renumbered(index, wanted)

    def _renumbered(self, index: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        for place, field in enumerate(rows.schema):
            metadata = field.metadata or {}
            if _REFERS in metadata:
                to, base = metadata[_REFERS].decode(), int(metadata[_BASE])
                values = rows.column(place).to_numpy() - base
                column = pa.array(self._new_numbers(index, to, values, field.name) + base, field.type)
                rows = rows.set_column(place, field, column)
        return rows

    def _new_numbers(self, index: int, name: str, old: Ints, column: str) -> Ints:
        numbers = self._numbers(index, name)
        before = sum(len(self._numbers(other, name)) for other in range(index))
        old = old.astype(np.int64, copy=False)
        numbered = np.empty(len(old), np.int64)
        failed = renumber(read_only(old), read_only(numbers), before, numbered)
        if failed >= 0:
            raise BugError(
                f"column {column!r} refers to {old[failed]} of {name!r}, which was not kept; please report it."
            )
        return numbered

    def _numbers(self, index: int, name: str) -> Ints:
        """Return the old numbers of the chosen rows, ascending."""
        numbers_before = self._kept.get((index, name))
        if numbers_before is None:
            batches = self._parts[index].batches.get(name, ())
            masks = self._mask(index, name)
            number = SLOT if batches and table_form(batches[0].schema) else ID
            parts = [np.zeros(0, np.int64)]
            for place, rows in enumerate(batches):
                numbers = rows.column(number).to_numpy()
                parts.append(numbers if masks is None else numbers[masks[place]])
            numbers_before = self._kept[index, name] = np.concatenate(parts)
        return numbers_before

    def _mask(self, index: int, name: str) -> list[Mask] | None:
        """Return for every row of a dump's table or log whether it is chosen; None: all are."""
        if self._chosen is None:
            return None
        masks = self._masks.get((index, name))
        if masks is None:
            batches = self._parts[index].batches.get(name, ())
            masks = self._masks[index, name] = [self._choose(index, rows, self._chosen) for rows in batches]
        return masks

    def _choose(self, index: int, rows: pa.RecordBatch, chosen: Chosen) -> Mask:
        form = table_form(rows.schema)
        if form is not None and form.follows is not None:
            field = rows.schema.field(form.follows)
            old = rows.column(form.follows).to_numpy() - int(field.metadata[_BASE])
            numbers = self._numbers(index, field.metadata[_REFERS].decode())
            places = np.minimum(np.searchsorted(numbers, old), max(len(numbers) - 1, 0))
            return numbers[places] == old if len(numbers) else np.zeros(rows.num_rows, np.bool_)
        return chosen(_positions(rows))


EMPTY = StoreImage()
"""The image of a first start."""


def positions_of(hashes: NDArray[np.uint64]) -> Positions:
    """Return the key positions of these hashes."""
    return (hashes >> np.uint64(32)).astype(np.uint32)


def _positions(rows: pa.RecordBatch) -> Positions:
    """Return the positions of the rows of a dumped table or log; none where each follows a row of another table."""
    form = table_form(rows.schema)
    if form is None:
        positions: Positions = rows.column(POSITION).to_numpy()
        return positions
    return positions_of(_keys(form, rows)) if form.follows is None else np.zeros(0, np.uint32)


def _keys(form: TableForm, rows: pa.RecordBatch) -> NDArray[np.uint64]:
    places = range(form.beside, form.keys) if form.placed_by is None else form.placed_by
    columns = [rows.column(1 + form.prefixed + place) for place in places]
    return KeyCodec([column.type for column in columns]).hash(columns, rows.num_rows)


def _check_table(owner: str, name: str, schema: pa.Schema, dumped: pa.Schema) -> None:
    types_now, types_then = ({field.name: field.type for field in item} for item in (schema, dumped))
    if list(types_now.items()) != list(types_then.items()) or table_form(schema) != table_form(dumped):
        changed = sorted(
            key for key in types_now.keys() | types_then.keys() if types_now.get(key) != types_then.get(key)
        )
        raise SchemaError(
            f"the state of operator {owner!r} (table {name!r}) was written by another pipeline: "
            f"{', '.join(changed) or 'its keys'} differ. To go on, {_WAYS_OUT.format(owner=owner)}."
        )


def _log_column(owner: str, name: str, rows: pa.RecordBatch, field: pa.Field, lenient: bool) -> pa.Array:
    place = rows.schema.get_field_index(field.name)
    if place >= 0 and rows.schema.field(place).type == field.type:
        return rows.column(place)
    if place < 0 and field.nullable and lenient:
        return pa.nulls(rows.num_rows, field.type)
    if place < 0:
        raise SchemaError(
            f"operator {owner!r} needs the column {field.name!r} ({field.type}), which the rows that it kept do not "
            f"have: {_WAYS_OUT.format(owner=owner)}, or accept_changed={owner!r} to have null in it if it may be null."
        )
    raise SchemaError(
        f"the rows that operator {owner!r} kept have {rows.schema.field(place).type} in column {field.name!r}, which "
        f"is {field.type} now: {_WAYS_OUT.format(owner=owner)}."
    )
