"""The shape that JSON messages share: learnt from one of them, for the kernel that finds others.

Functional: a message and the columns that are wanted go in, a `Shape` comes out, or None if the message has none
(docs/design/kafka.md 6).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Union

import pyarrow as pa

from penstock.engine.kernels import json_shapes as kernels

_DECIMALS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_INT64 = 1 << 63
_GAP = re.compile(r"[ \t]*")
_SCAN = json.JSONDecoder()
_MOST_SLOTS = 512

Slot = tuple[int, int, bytes]
"""Kind, column, and the bytes before."""

Wanted = Mapping[str, Union["Leaf", "Group"]]
"""What is wanted of an object, by name."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of values. ``number`` counts those of a schema; `wire` is what is read, ``kind`` what it stands for."""

    number: int
    kind: pa.DataType
    slot: int
    limits: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Group:
    """An object in an object, which is a struct of columns. ``number`` counts those of a schema."""

    number: int
    kind: pa.DataType
    fields: Wanted


@dataclass(frozen=True, slots=True)
class Shape:
    """The slots of a message in order, the last of them its end, and the groups that it has."""

    slots: tuple[Slot, ...]
    groups: frozenset[int]


def wanted_of(schema: pa.Schema) -> Wanted | None:
    """Return what a schema wants of a message; None if a type is left to the general decoder."""
    counts = [0, 0]
    try:
        return _fields(list(schema), counts, top=True)
    except _NoShapeError:
        return None


def leaves_of(wanted: Wanted) -> Iterator[Leaf]:
    """Return all columns of values, in order of their number."""
    for item in wanted.values():
        if isinstance(item, Leaf):
            yield item
        else:
            yield from leaves_of(item.fields)


def groups_of(wanted: Wanted) -> Iterator[Group]:
    """Return all structs, in order of their number."""
    for item in wanted.values():
        if isinstance(item, Group):
            yield item
            yield from groups_of(item.fields)


def shape_of(message: bytes, wanted: Wanted, *, strict: bool = False) -> Shape | None:
    """Return the shape of a message; None if it is no plain object on one line with each name once.

    With ``strict`` a message has none if it has a name that is not wanted.
    """
    try:
        learner = _Learner(message.decode(), strict)
        learner.read(wanted)
    except (_NoShapeError, ValueError, RecursionError):
        return None
    return Shape(tuple(learner.slots), frozenset(learner.groups))


class _NoShapeError(Exception):
    """There is no shape to be had."""


class _Learner:
    """Walks along a message and notes its slots."""

    def __init__(self, text: str, strict: bool) -> None:
        self._strict = strict
        self.slots: list[Slot] = []
        self.groups: set[int] = set()
        self._text = text
        self._at = 0
        self._noted = 0

    def read(self, wanted: Wanted) -> None:
        self._gap()
        self._object(wanted)
        if self._text[self._at :].strip(" \t"):
            raise _NoShapeError
        self._slot(len(self._text), kernels.END, 0)

    def _object(self, wanted: Wanted) -> None:
        seen: set[str] = set()
        self._take("{")
        if self._next() == "}":
            self._at += 1
            return
        while True:
            name = self._name()
            if name in seen:
                raise _NoShapeError
            seen.add(name)
            if self._strict and name not in wanted:
                raise _NoShapeError
            self._take(":")
            self._gap()
            self._value(wanted.get(name))
            if self._next() == "}":
                self._at += 1
                return
            self._take(",")

    def _value(self, wanted: Leaf | Group | None) -> None:
        if isinstance(wanted, Group) and self._next() == "{":
            self.groups.add(wanted.number)
            self._object(wanted.fields)
            return
        value, end = _SCAN.raw_decode(self._text, self._at)
        if isinstance(wanted, Group):
            if value is not None:
                raise _NoShapeError
        elif wanted is None:
            self._slot(self._at, kernels.PASSED, 0)
            self._noted = end
        else:
            self._slot(self._at, wanted.slot, wanted.number)
            self._noted = end
        self._at = end

    def _name(self) -> str:
        self._gap()
        name, end = _SCAN.raw_decode(self._text, self._at)
        if not isinstance(name, str) or "\\" in self._text[self._at : end]:
            raise _NoShapeError
        self._at = end
        return name

    def _slot(self, at: int, kind: int, column: int) -> None:
        if len(self.slots) == _MOST_SLOTS:
            raise _NoShapeError
        self.slots.append((kind, column, self._text[self._noted : at].encode()))

    def _take(self, mark: str) -> None:
        if self._next() != mark:
            raise _NoShapeError
        self._at += 1

    def _next(self) -> str:
        self._gap()
        return self._text[self._at : self._at + 1]

    def _gap(self) -> None:
        match = _GAP.match(self._text, self._at)
        assert match is not None
        self._at = match.end()


def _fields(fields: list[pa.Field], counts: list[int], top: bool) -> Wanted:
    wanted: dict[str, Leaf | Group] = {}
    for field in fields:
        if field.name in wanted:
            raise _NoShapeError
        if pa.types.is_struct(field.type):
            number = counts[1]
            counts[1] += 1
            wanted[field.name] = Group(number, field.type, _fields(list(field.type), counts, top=False))
        else:
            slot, limits = _slot_of(field.type, top)
            wanted[field.name] = Leaf(counts[0], field.type, slot, limits)
            counts[0] += 1
    return wanted


def _slot_of(kind: pa.DataType, top: bool) -> tuple[int, tuple[int, int, int]]:
    """Return how values of a type are read, and the limits of its column."""
    no_limits = (-_INT64, _INT64 - 1, 0)
    if pa.types.is_boolean(kind):
        return kernels.FLAG, no_limits
    if pa.types.is_integer(kind):
        bits = kind.bit_width
        signed = pa.types.is_signed_integer(kind)
        least, greatest = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return kernels.WHOLE, (least, min(greatest, _INT64 - 1), 0)
    if pa.types.is_duration(kind):
        return kernels.WHOLE, no_limits
    if pa.types.is_floating(kind):
        return kernels.DOUBLE, no_limits
    if pa.types.is_timestamp(kind):
        return kernels.TIME_OR_NUMBER if top else kernels.TIME, (-_INT64, _INT64 - 1, _DECIMALS[kind.unit])
    others = pa.types.is_date, pa.types.is_time, pa.types.is_binary, pa.types.is_string
    if any(test(kind) for test in others):
        return kernels.TEXT, no_limits
    raise _NoShapeError
