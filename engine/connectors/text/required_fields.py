"""The check for rows that lack a required value, also within structs and lists. Called by JSON decoders."""

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.model.schema import FieldPath

_SHOWN = 12

_Tree: TypeAlias = dict[str, "_Tree"]
FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""Decodes an object down to its fields."""


class RequiredFields:
    """Fields that must have a value, by path; of one in a struct only where the struct is there, of lists in each."""

    def __init__(self, paths: Collection[FieldPath]) -> None:
        """Take the paths; they are those of a schema."""
        self.paths = frozenset(paths)
        self._tree: _Tree = {}
        for path in self.paths:
            level = self._tree
            for name in path:
                level = level.setdefault(name, {})

    def of(self, columns: Sequence[str]) -> "RequiredFields":
        """Return those of some columns."""
        return RequiredFields([path for path in self.paths if path[0] in columns])

    def missing(self, rows: pa.RecordBatch) -> dict[int, str]:
        """Return the rows that lack one, and its name; it costs next to nothing where none does."""
        if not self.paths:
            return {}
        absent: dict[int, str] = {}
        # In the schema's order, so that of several fields the same one is named by every process.
        for name in rows.schema.names:
            if name in self._tree:
                for path, places in self._absent(rows.column(name), self._tree[name], (name,), None, None):
                    for place in places.tolist():
                        absent.setdefault(place, _text(path))
        return absent

    def _absent(
        self,
        column: pa.Array,
        below: _Tree,
        path: FieldPath,
        parent: pa.Array | None,
        row_of: NDArray[np.int64] | None,
    ) -> Iterator[tuple[FieldPath, NDArray[np.int64]]]:
        """Yield paths and the rows where they have no value; ``row_of[i]`` is the row that value i belongs to."""
        if path in self.paths and column.null_count:
            absent = np.asarray(column.is_null())
            if parent is not None and parent.null_count:
                absent = absent & np.asarray(parent.is_valid())
            places = np.flatnonzero(absent)
            if len(places):
                yield path, places if row_of is None else row_of[places]
        if not below:
            return
        if pa.types.is_list(column.type):
            rows = np.asarray(pc.list_parent_indices(column)).astype(np.int64)
            inside = rows if row_of is None else row_of[rows]
            yield from self._absent(column.flatten(), below[""], (*path, ""), None, inside)
            return
        for field in column.type:
            if field.name in below:
                child = column.field(field.name)
                yield from self._absent(child, below[field.name], (*path, field.name), column, row_of)


def _text(path: FieldPath) -> str:
    """Return a path as people write it: ``parts[].price``."""
    return "".join(f".{name}" if name else "[]" for name in path).removeprefix(".")


def listed(names: Sequence[str], between: str) -> str:
    """Return the first dozen of some names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return between.join(names[:_SHOWN]) + more


def missing_sentence(field: str, message: bytes) -> str:
    """Say that a message lacks a field, and what it has instead."""
    try:
        names = list(FIELDS.decode(message))
    except (ValueError, RecursionError):
        names = []
    has = f"there are {listed(names, ', ')}" if names else "there are none"
    return f"field {field!r} is missing or null, and the schema requires it; of the fields {has}"
