"""Decodes those of many JSON messages that are alike: several times as fast as pyarrow (docs/design/kafka.md 6).

Shapes are learnt while messages come. What has none is left to the general decoder, which also confirms each shape
on the message it was learnt from; a row is the same whoever decodes it. Called by `json.JsonValues`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.formats import json_shape
from penstock.engine.connectors.kafka.formats.json_shape import Leaf, Shape, Wanted
from penstock.engine.connectors.text.text_values import from_wire
from penstock.engine.kernels import json_shapes as kernels
from penstock.state.keys.arrays import read_only
from penstock.state.keys.text_arrays import write_text

MOST_SHAPES = 8
"""So many shapes are known at a time; a new one takes the place of the one that fewest messages had of late."""

_TRIED = (0.5, 0.0, 0.75, 0.25)
"""Where the messages stand, among those without a shape, that shapes are learnt from: a few, since learning is slow.

Spread, so that what is frequent is tried wherever rare ones are.
"""

_PADDING = bytes(8)
_WORD = 8

Ints = NDArray[np.int64]
Confirm = Callable[[bytes], pa.RecordBatch | None]
"""Decodes one message in general; None if it is no row."""


@dataclass(slots=True)
class _LearnedShapes:
    """The shapes that are known, as the kernel takes them, and how many messages each had of late."""

    shapes: list[Shape] = field(default_factory=list)
    hits: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    starts: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    slots: Ints = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    constants: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(_WORD, np.uint8))

    def with_shape(self, shape: Shape) -> "_LearnedShapes":
        """Return these and one more, without the one that few messages had if there are too many."""
        shapes, hits = list(self.shapes), self.hits
        if len(shapes) == MOST_SHAPES:
            rarest = int(np.argmin(hits))
            del shapes[rarest]
            hits = np.delete(hits, rarest)
        shapes.append(shape)
        starts = np.cumsum([0, *(len(item.slots) for item in shapes)])
        slots: list[tuple[int, int, int, int]] = []
        constants = bytearray()
        for item in shapes:
            for kind, column, constant in item.slots:
                slots.append((kind, column, len(constants), len(constant)))
                constants += constant + bytes(-len(constant) % _WORD)
        constants += _PADDING
        return _LearnedShapes(
            shapes,
            np.append(hits, 0),
            starts.astype(np.int64),
            np.array(slots, np.int64),
            np.frombuffer(bytes(constants), np.uint8),
        )


@dataclass(slots=True)
class _Taken:
    """The spans that the kernel took out of ``data``: see `kernels.match_shapes`."""

    data: NDArray[np.uint8]
    ends: Ints
    values: Ints
    sizes: NDArray[np.int32]
    valid: NDArray[np.uint8]
    groups: NDArray[np.bool_]
    """groups[g, r]: whether message r has that object."""
    shape_of: Ints
    """The shape of a message among those known when it was found; -1: none."""

    @classmethod
    def nothing(cls, data: bytes, ends: Ints, columns: int, groups: int) -> "_Taken":
        """Return room for the values of messages that end at ``ends``."""
        count = len(ends)
        return cls(
            np.frombuffer(data, np.uint8),
            read_only(ends),
            np.zeros((columns, count), np.int64),
            np.empty((columns, count), np.int32),
            np.zeros((columns, count), np.uint8),
            np.zeros((groups, count), np.bool_),
            np.full(count, -1, np.int64),
        )


class ShapedJson:
    """Decodes messages that have a shape into rows of a schema. Used by one thread."""

    def __init__(self, schema: pa.Schema, wanted: Wanted, confirm: Confirm, *, strict: bool = False) -> None:
        """Know no shape yet; ``wanted`` is what the schema wants, with ``strict`` all that messages may have."""
        self._strict = strict
        self._schema = schema
        self._wanted = wanted
        self._confirm = confirm
        self._leaves = list(json_shape.leaves_of(wanted))
        self._groups = len(list(json_shape.groups_of(wanted)))
        self._limits = read_only(np.array([leaf.limits for leaf in self._leaves], np.int64).reshape(-1, 3))
        self._learned = _LearnedShapes()

    def decode(self, values: Sequence[bytes], ends: Ints) -> tuple[pa.RecordBatch, NDArray[np.bool_]] | None:
        """Return a row per message, and which of them are good; None if no message has a shape.

        The rows of the others hold nothing that means anything. ``ends`` are the bytes up to the end of each message.
        """
        data = b"".join([*values, _PADDING])
        if not data.isascii() and not _is_text(data):
            return None
        taken = _Taken.nothing(data, ends, len(self._leaves), self._groups)
        rows = np.arange(len(values))
        if self._learned.shapes:
            rows = self._match(taken, rows)
        for place in _TRIED:
            if not len(rows):
                break
            tried = int(rows[int(place * len(rows))])
            rows = self._match(taken, rows) if self._learn(values[tried]) else rows[rows != tried]
        self._learned.hits >>= 1
        good = taken.shape_of >= 0
        if not good.any():
            return None
        table = self._rows(taken)
        return None if table is None else (table, good)

    def _match(self, taken: _Taken, rows: Ints) -> Ints:
        """Take the values out of some messages; return those that have no shape."""
        learned = self._learned
        kernels.match_shapes(
            taken.data,
            taken.ends,
            read_only(rows),
            kernels.ShapeArrays(read_only(learned.starts), read_only(learned.slots), learned.constants),
            self._limits,
            kernels.ValueArrays(taken.values, taken.values.view(np.float64), taken.sizes, taken.valid),
            taken.shape_of,
            learned.hits,
        )
        shape_of_row = taken.shape_of[rows]
        for group in range(self._groups):
            present = np.array([group in shape.groups for shape in learned.shapes] + [False])
            taken.groups[group, rows] = present[shape_of_row]
        left: Ints = rows[shape_of_row < 0]
        return left

    def _learn(self, message: bytes) -> bool:
        """Learn the shape of a message; return whether it is new and the general decoder reads the message alike."""
        shape = json_shape.shape_of(message, self._wanted, strict=self._strict)
        if shape is None or shape in self._learned.shapes:
            return False
        before, self._learned = self._learned, _LearnedShapes().with_shape(shape)
        ends = np.array([len(message)], np.int64)
        taken = _Taken.nothing(message + _PADDING, ends, len(self._leaves), self._groups)
        confirmed = False
        if not len(self._match(taken, np.zeros(1, np.int64))):
            row, decoded = self._rows(taken), self._confirm(message)
            confirmed = row is not None and decoded is not None and decoded.equals(row)
        self._learned = before.with_shape(shape) if confirmed else before
        return confirmed

    def _rows(self, taken: _Taken) -> pa.RecordBatch | None:
        """Return a row per message; None if a text does not convert to its column's type."""
        try:
            columns = [self._column(item, taken) for item in self._wanted.values()]
        except pa.ArrowInvalid:
            return None
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, item: Leaf | json_shape.Group, taken: _Taken) -> pa.Array:
        if isinstance(item, Leaf):
            return _leaf(item, taken)
        children = [self._column(child, taken) for child in item.fields.values()]
        valid = taken.groups[item.number]
        return pa.Array.from_buffers(item.kind, len(valid), [_bits(valid)], children=children)


def _leaf(leaf: Leaf, taken: _Taken) -> pa.Array:
    """Return a column of values."""
    valid = taken.valid[leaf.number]
    values = taken.values[leaf.number]
    bits = _bits(valid)
    if leaf.slot == kernels.TEXT:
        offsets, data = kernels.copy_texts(taken.data, values, taken.sizes[leaf.number], valid)
        return from_wire(write_text(pa.string(), data, offsets, bits), leaf.kind)
    if leaf.slot == kernels.FLAG:
        return _plain(pa.bool_(), np.packbits((values == 1) & (valid == 1), bitorder="little"), len(values), bits)
    if leaf.slot == kernels.DOUBLE:
        return from_wire(_plain(pa.float64(), values, len(values), bits), leaf.kind)
    if pa.types.is_integer(leaf.kind) and leaf.kind.bit_width < 64:
        values = values.astype(leaf.kind.to_pandas_dtype())
    return _plain(leaf.kind, values, len(values), bits)


def _plain(kind: pa.DataType, values: NDArray[Any], count: int, bits: pa.Buffer | None) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(values)])


def _bits(valid: NDArray[Any]) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _is_text(data: bytes) -> bool:
    """Return whether these bytes are UTF-8. Between messages that are objects there is no half of a character."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
