"""Finds messages that are alike but for their values, and takes the values out. Called by `json_shapes.ShapedJson`.

A *shape* is what such messages have in common: the bytes between the values, and which column each value is for. A
message that differs in a byte, or has a value in a form that the readers refuse, has no shape and is left alone.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.engine.kernels.copy_bytes import copy_bytes
from penstock.engine.kernels.json_times import time_text
from penstock.engine.kernels.json_values import (
    byte_at,
    double,
    flag,
    is_null,
    text_end,
    value_end,
    whole_number,
)
from penstock.state.kernels.intrinsics import address, inlined, load64
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints

END, PASSED, WHOLE, DOUBLE, FLAG, TEXT, TIME, TIME_OR_NUMBER = range(8)
"""What follows the constant bytes of a slot: the message's end, a value that no column wants, or one of a kind."""

KIND, COLUMN, WORD, SIZE = range(4)
"""Fields of a slot: its kind, its column, and where its constant is among all words and how many bytes it has."""

LEAST, GREATEST, KEPT = range(3)
"""Fields of a column's limits: of its integers, and the decimals that a unit of its times has to a second."""

GREATEST_NUMBER_MS = 9_000_000_000_000
"""Times as numbers are read up to here from 1970, in both directions: every unit holds them."""

_QUOTE = ord('"')
_MS_DIGITS = 3


@inlined
def _is_constant(at: int, words: int, size: int) -> bool:
    while size >= 8:
        if load64(at) != load64(words):
            return False
        at += 8
        words += 8
        size -= 8
    if size == 0:
        return True
    return bool(((load64(at) ^ load64(words)) << np.uint64(64 - 8 * size)) == np.uint64(0))


@inlined
def _time_number(at: int, end: int, kept: int) -> tuple[int, int]:
    """Return milliseconds since 1970 in units of 10^-``kept`` seconds, and the address behind them."""
    number, behind = whole_number(at, end)
    if number > GREATEST_NUMBER_MS or number < -GREATEST_NUMBER_MS:
        return 0, -1
    if kept == 0:
        return number // 1_000, behind
    for _ in range(kept - _MS_DIGITS):
        number *= 10
    return number, behind


class ShapeArrays(NamedTuple):
    """Shape s has the slots[starts[s]:starts[s + 1], `KIND`...], of which the last is `END`.

    ``constants`` are the bytes before the values, each padded to whole words.
    """

    starts: Ints
    slots: Ints
    constants: Bytes


class ValueArrays(NamedTuple):
    """Values by column and message: integers, flags and times; of texts where they begin, and in ``sizes`` how long.

    ``doubles`` is the memory of ``values``. Where ``valid`` is 0 the others mean nothing.
    """

    values: Ints
    doubles: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int32]
    valid: Bytes


@jit
def match_shapes(
    data: Bytes,
    ends: Ints,
    rows: Ints,
    learned: ShapeArrays,
    limits: Ints,
    taken: ValueArrays,
    shape_of: Ints,
    hits: Ints,
) -> None:
    """Take the values out of those of some messages that have a shape.

    Args:
        data: the messages, one behind the other, and 8 bytes more.
        ends: ends[r] is where message r ends; it begins where the one before ends, the first at 0.
        rows: the messages to look at; their columns of ``valid`` are 0.
        learned: the shapes.
        limits: limits[c, `LEAST`...] of column c.
        taken: receives the values.
        shape_of: shape_of[r] receives the shape, or stays as it is.
        hits: hits[s] is increased by the messages of shape s.
    """
    shapes, slots, constants = learned
    values, doubles, sizes, valid = taken
    base = address(data)
    words = address(constants)
    count = shapes.size - 1
    likely = 0
    for r in rows:
        begin = base + (ends[r - 1] if r > 0 else 0)
        end = base + ends[r]
        for turn in range(count):
            # What came last comes first, then the others in order.
            s = likely if turn == 0 else (turn - 1 if turn <= likely else turn)
            at = begin
            filled = -1
            k = shapes[s]
            while True:
                size = slots[k, SIZE]
                if at + size > end or not _is_constant(at, words + slots[k, WORD], size):
                    at = -1
                    break
                at += size
                kind = slots[k, KIND]
                if kind == PASSED:
                    at = value_end(at, end)
                elif kind == END:
                    break
                else:
                    c = slots[k, COLUMN]
                    filled = k
                    if is_null(at):
                        at += 4
                    elif kind == TEXT:
                        if byte_at(at) != _QUOTE:
                            at = -1
                            break
                        behind = text_end(at + 1, end)
                        if behind < 0:
                            at = -1
                            break
                        values[c, r] = at + 1 - base
                        sizes[c, r] = behind - at - 1
                        valid[c, r] = 1
                        at = behind + 1
                    elif kind == DOUBLE:
                        real, at = double(at, end)
                        doubles[c, r] = real
                        valid[c, r] = 1
                    else:
                        if kind == WHOLE:
                            number, at = whole_number(at, end)
                        elif kind == FLAG:
                            number, at = flag(at)
                        elif byte_at(at) == _QUOTE:
                            number, at = time_text(at + 1, end, limits[c, KEPT])
                        elif kind == TIME_OR_NUMBER:
                            number, at = _time_number(at, end, limits[c, KEPT])
                        else:
                            number, at = 0, -1
                        if number < limits[c, LEAST] or number > limits[c, GREATEST]:
                            at = -1
                        values[c, r] = number
                        valid[c, r] = 1
                if at < 0:
                    break
                k += 1
            if at == end:
                shape_of[r] = s
                hits[s] += 1
                likely = s
                break
            for slot in range(shapes[s], filled + 1):
                if slots[slot, KIND] > PASSED:
                    valid[slots[slot, COLUMN], r] = 0


@jit
def copy_texts(data: Bytes, starts: Ints, sizes: npt.NDArray[np.int32], valid: Bytes) -> tuple[Ints, Bytes]:
    """Return (offsets, data) of the texts at places of ``data``; those that are not valid are empty."""
    offsets = np.empty(starts.size + 1, np.int64)
    end = 0
    for i in range(starts.size):
        offsets[i] = end
        if valid[i]:
            end += sizes[i]
    offsets[starts.size] = end
    texts = np.empty(end, np.uint8)
    for i in range(starts.size):
        if valid[i]:
            copy_bytes(texts, offsets[i], data, starts[i], sizes[i])
    return offsets, texts
