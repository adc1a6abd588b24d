"""Kernels of dates and timestamps. Without a zone a timestamp is UTC; parts are int64.

`expressions.kernels` looks them up. In UTC they are integer arithmetic; in any other zone Arrow's calendar does it.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.engine.expressions.values import Kernel, arrow, fixed, numbers, validity
from penstock.engine.kernels import calendar
from penstock.model.functions import FORMATS, format_pieces, truncation
from penstock.model.typed_expressions import TypedExpression
from penstock.state.keys.arrays import NO_INTEGERS, Bytes, Ints, read_only

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_UNITS_US = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_UNITS_US |= {"millisecond": 1_000, "microsecond": 1}
_UTC = (None, "UTC", "Etc/UTC", "+00:00")
# What a part of the day is: seconds it lasts, and after how many it starts again.
_PARTS_OF_DAY = {"hour": (3_600, 24), "minute": (60, 60), "second": (1, 60)}


def part(typed: TypedExpression) -> Kernel:
    """Parts of a date or timestamp."""
    kind = typed.args[0].type
    if pt.is_date(kind):
        if typed.op in ("hour", "minute", "second", "millisecond"):
            return lambda value: fixed(pa.int64(), np.zeros(len(value), np.int64), validity(value))
    elif kind.tz in _UTC:
        second = PER_SECOND[kind.unit]
        if typed.op in _PARTS_OF_DAY:
            length, cycle = _PARTS_OF_DAY[typed.op]
            return lambda value: _cyclic(value, length * second, cycle)
        if typed.op == "millisecond":
            if second < 1_000:
                return lambda value: _cyclic(value, second, 1)
            return lambda value: _cyclic(value, second // 1_000, 1_000)
    if typed.op == "isodow":
        return arrow("day_of_week", pc.DayOfWeekOptions(count_from_zero=False, week_start=1))
    return arrow({"dayofyear": "day_of_year"}.get(typed.op, typed.op))


def date(typed: TypedExpression) -> Kernel:
    """The date of a timestamp, in its zone."""
    kind = typed.args[0].type
    if pt.is_date(kind):
        return lambda value: value
    local = _local(kind)
    day = 86_400 * PER_SECOND[kind.unit]
    return lambda value: _date(local(value), day)


def truncate(typed: TypedExpression) -> Kernel:
    """The start of the interval a time lies in."""
    kind = typed.args[0].type
    length = truncation(typed.value[0])
    if isinstance(length, str):
        floor = arrow("floor_temporal", pc.RoundTemporalOptions(1, length))
        return lambda value: floor(value).cast(kind)
    units, rest = divmod(length * PER_SECOND[kind.unit], 1_000_000)
    if rest:
        if 1_000_000 % (length * PER_SECOND[kind.unit]) == 0:
            return lambda value: value
        return _truncate_in_microseconds(kind, length)
    if kind.tz in _UTC:
        return lambda value: fixed(kind, _floored(numbers(value), units), validity(value))
    return _truncate_in_zone(kind, length)


def strftime(typed: TypedExpression) -> Kernel:
    """A time as text: one kernel writes the fields into a template."""
    kind = typed.args[0].type
    local = _local(kind)
    unit = PER_SECOND[kind.unit]
    pieces = format_pieces(typed.value[0])
    template, fields = _template(pieces)
    shown = {letter for letter, _ in pieces}
    granularity = 0 if "f" in shown else 1 if "S" in shown else 60 if "M" in shown else 86_400
    granularity = 3_600 if granularity == 86_400 and "H" in shown else granularity
    pattern = typed.value[0]

    def kernel(value: pa.Array) -> pa.Array:
        ticks = numbers(local(value)).view(np.int64)
        count = len(ticks)
        if granularity and count and _within_one(ticks, unit * granularity):
            ticks = ticks[:1]
        seconds = np.floor_divide(ticks, unit)
        micros = NO_INTEGERS
        if not granularity:
            micros = read_only((ticks - seconds * unit) * 1_000_000 // unit)
        text = np.empty((len(ticks), len(template)), np.uint8)
        text[:] = template
        if not calendar.format_times(read_only(seconds), micros, granularity, fields, text):
            return _format_slowly(value, pattern)
        if len(text) < count:
            text = np.tile(text[0], count)
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(template))
        buffers = [validity(value), pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(pa.string(), count, buffers)

    return kernel


def epoch(typed: TypedExpression) -> Kernel:
    """Whole microseconds or milliseconds since 1970."""
    kind = typed.args[0].type
    wanted = 1_000_000 if typed.op == "epoch_us" else 1_000
    if pt.is_date(kind):
        factor = np.int64(86_400 * wanted)
        return lambda value: fixed(pa.int64(), numbers(value) * factor, validity(value))
    unit = PER_SECOND[kind.unit]
    if unit >= wanted:
        return lambda value: fixed(pa.int64(), np.floor_divide(numbers(value), unit // wanted), validity(value))
    factor_scalar = pa.scalar(wanted // unit, pa.int64())
    return lambda value: pc.multiply_checked(value.view(pa.int64()), factor_scalar)


def arithmetic(typed: TypedExpression) -> Kernel:
    """Sums, differences and negation of times of one unit; an overflow is an error."""
    names = {"add": "add_checked", "sub": "subtract_checked", "neg": "negate_checked"}
    kernel = arrow(names[typed.op])

    def ticks(value: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
        if isinstance(value, pa.Scalar):
            return pa.scalar(value.value, pa.int64())
        return value.view(pa.int64())

    return lambda *values: kernel(*[ticks(value) for value in values]).view(typed.type)


def _within_one(ticks: Ints, length: int) -> bool:
    """Return whether all times lie in one interval of ``length`` ticks, as a batch's often do in one day or minute."""
    return bool(ticks.min() // length == ticks.max() // length)


def _floored(ticks: Ints, step: int) -> Ints:
    whole = np.floor_divide(ticks, step)
    whole *= step
    return whole


def _cyclic(value: pa.Array, step: int, cycle: int) -> pa.Array:
    """Return floor(ticks / step) modulo cycle."""
    steps = numbers(value) if step == 1 else np.floor_divide(numbers(value), step)
    return fixed(pa.int64(), steps - _floored(steps, cycle), validity(value))


def _local(kind: pa.DataType) -> Kernel:
    """Return how to turn timestamps into those a clock in their zone shows, without zone."""
    if kind.tz in _UTC:
        return lambda value: value
    return arrow("local_timestamp")


def _date(value: pa.Array, day: int) -> pa.Array:
    days = np.floor_divide(numbers(value), day).astype(np.int32)
    return fixed(pa.date32(), days, validity(value))


def _truncate_in_microseconds(kind: pa.DataType, length: int) -> Kernel:
    """An odd interval of a fraction of the unit: floor in microseconds, then in the unit."""
    micros = 1_000_000 // PER_SECOND[kind.unit]

    def kernel(value: pa.Array) -> pa.Array:
        ticks = _floored(numbers(value) * micros, length) // micros
        return fixed(kind, ticks, validity(value))

    return kernel


def _truncate_in_zone(kind: pa.DataType, length: int) -> Kernel:
    """Floor by the clock of a zone; Arrow counts intervals in whole units."""
    unit, size = next((unit, size) for unit, size in _UNITS_US.items() if length % size == 0)
    floor = arrow("floor_temporal", pc.RoundTemporalOptions(length // size, unit))
    return lambda value: floor(value).cast(kind)


def _template(pieces: tuple[tuple[str, str], ...]) -> tuple[Bytes, Ints]:
    """Return the constant bytes of the text and its fields as `calendar.format_times` takes them."""
    order = {"Y": 0, "m": 1, "d": 2, "H": 3, "M": 4, "S": 5, "f": 6, "j": 7, "y": 8}
    text = b""
    fields = []
    for letter, between in pieces:
        if letter:
            fields.append((order[letter], len(text), FORMATS[letter]))
        text += b"0" * FORMATS[letter] if letter else between.encode()
    table = np.array(fields, np.int64).reshape(-1, 3)
    return np.frombuffer(text, np.uint8), read_only(table)


def _format_slowly(value: pa.Array, pattern: str) -> pa.Array:
    """Format by Arrow, which knows years beyond 9999; for microseconds its seconds have a fraction."""
    seconds = pc.floor_temporal(value, 1, "second").cast(pa.timestamp("s", value.type.tz))
    pieces = []
    for letter, text in format_pieces(pattern):
        if letter == "f":
            micros = pc.microsecond(value) if value.type.unit in ("us", "ns") else _zeros(value)
            millis = pc.millisecond(value) if value.type.unit != "s" else _zeros(value)
            whole = pc.add(pc.multiply(millis, 1_000), micros).cast(pa.string())
            pieces.append(pc.utf8_lpad(whole, 6, "0"))
        elif letter:
            pieces.append(pc.strftime(seconds, f"%{letter}"))
        else:
            pieces.append(pa.scalar(text))
    return pc.binary_join_element_wise(*pieces, "")


def _zeros(value: pa.Array) -> pa.Array:
    return fixed(pa.int64(), np.zeros(len(value), np.int64), None)
