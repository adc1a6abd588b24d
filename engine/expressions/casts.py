"""Kernels of casts: what does not convert is an error of the row, or null for ``try_cast``.

`expressions.kernels` looks them up. To integers they truncate; to fewer decimal places they round half away from zero;
times of a coarser unit are floored; text must be the number or time and nothing else.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.engine.expressions.decimals import nearest_floats
from penstock.engine.expressions.time import PER_SECOND, date
from penstock.engine.expressions.values import (
    Kernel,
    RowError,
    bitmap,
    booleans,
    dtype_of,
    fixed,
    numbers,
    text_parts,
    valid,
    validity,
)
from penstock.engine.kernels import text as kernels
from penstock.model.coercion import OperandType, digits_of
from penstock.model.typed_expressions import TypedExpression
from penstock.state.keys.arrays import Ints, Mask, read_only

_FLOAT = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"([ T][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?)?"
_ZONE = r"(Z|[+-][0-9]{2}:?[0-9]{2})$"
_WIDE = pa.decimal256(76, 38)

Checked = tuple[pa.Array, Mask | None]
"""Converted values, and where they are right (None: everywhere). Null rows count as right."""


def cast(typed: TypedExpression) -> Kernel:
    """A cast that raises for a batch in which some row does not convert."""
    source, target = typed.args[0].type, typed.type
    checked = _checked(source, target)
    if checked is None:
        return _strict(typed)

    def kernel(value: pa.Array) -> pa.Array:
        result, right = checked(value)
        if right is not None:
            wrong = ~right & valid(value)
            if wrong.any():
                bad = value[int(np.flatnonzero(wrong)[0])].as_py()
                raise RowError(f"{bad!r} does not fit in {target}")
        return result

    return kernel


def try_cast(typed: TypedExpression) -> Kernel:
    """A cast that gives null for rows that do not convert."""
    source, target = typed.args[0].type, typed.type
    checked = _checked(source, target)
    if checked is None:
        return _salvaging(typed)

    def kernel(value: pa.Array) -> pa.Array:
        result, right = checked(value)
        if right is None or right.all():
            return result
        return pc.if_else(booleans(right, None), result, pa.scalar(None, target))

    return kernel


def never_fails(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether every value of ``source`` can be cast to ``target``."""
    if pt.is_null(source) or source == target or (pt.is_boolean(target) and not pt.is_string(source)):
        return True
    if pt.is_floating(target) or pt.is_string(target):
        return not (pt.is_string(source) or pt.is_binary(source))
    if pt.is_integer(source) and pt.is_integer(target):
        limits, wanted = np.iinfo(dtype_of(source)), np.iinfo(dtype_of(target))
        return bool(limits.min >= wanted.min and limits.max <= wanted.max)
    if pt.is_integer(target):
        return bool(pt.is_boolean(source))
    if pt.is_decimal(target) and (pt.is_integer(source) or pt.is_decimal(source)):
        digits, scale = digits_of(OperandType(source))
        return bool(scale <= target.scale and digits - scale <= target.precision - target.scale)
    if pt.is_timestamp(source) and pt.is_timestamp(target):
        return PER_SECOND[source.unit] >= PER_SECOND[target.unit]
    return bool(pt.is_timestamp(source) and pt.is_date(target))


def _checked(source: pa.DataType, target: pa.DataType) -> Any:
    """Return a function from an array to `Checked`; None where only Arrow's own cast tells whether a value converts."""
    if pt.is_integer(target):
        if pt.is_string(source):
            return lambda value: _integers_from_text(value, target)
        if pt.is_floating(source):
            return lambda value: _integers_from_floats(value, target)
        if pt.is_integer(source):
            return lambda value: _in_range(numbers(value), value, target)
    if pt.is_decimal(target) and (pt.is_integer(source) or pt.is_decimal(source)):
        return lambda value: _decimals(value, target)
    if pt.is_integer(target) and pt.is_decimal(source):
        return lambda value: _integers_from_decimals(value, target)
    if pt.is_floating(target) and pt.is_integer(source):
        kind = dtype_of(target)
        return lambda value: (fixed(target, numbers(value).astype(kind), validity(value)), None)
    instants = pt.is_timestamp(target) and (pt.is_timestamp(source) or pt.is_date(source))
    if instants:
        return lambda value: _instants(value, target)
    if pt.is_timestamp(target) and pt.is_integer(source):
        return lambda value: _instants_from_integers(value, target)
    return None


def _strict(typed: TypedExpression) -> Kernel:
    source, target = typed.args[0].type, typed.type
    if pt.is_timestamp(source) and pt.is_date(target):
        return date(typed)
    if pt.is_string(source) and pt.is_timestamp(target):
        return lambda value: _times_from_text(value, target)
    if pt.is_string(source) and pt.is_decimal(target):
        return lambda value: _rounded(value.cast(_WIDE), target.scale).cast(target)
    if pt.is_string(target) and pt.is_decimal(source):
        return lambda value: value.cast(target)
    if pt.is_floating(source) and pt.is_floating(target):
        return lambda value: value.cast(target, safe=False)
    if pt.is_decimal(source) and pt.is_floating(target):
        return lambda value: nearest_floats(value, target)
    return lambda value: value.cast(target)


def _integers_from_text(value: pa.Array, target: pa.DataType) -> Checked:
    offsets, data = text_parts(value)
    parsed = np.empty(len(value), np.int64)
    good = np.empty(len(value), np.bool_)
    kernels.parse_integers(read_only(offsets), read_only(data), parsed, good)
    result, fitting = _in_range(parsed, value, target)
    return result, good if fitting is None else good & fitting


def _integers_from_floats(value: pa.Array, target: pa.DataType) -> Checked:
    limits = np.iinfo(dtype_of(target))
    whole = np.trunc(numbers(value).astype(np.float64, copy=False))
    # 2.0**63 is the first double beyond int64; the greatest int64 itself is none.
    good = (whole >= float(limits.min)) & (whole < float(limits.max + 1))
    with np.errstate(invalid="ignore"):
        data = whole.astype(dtype_of(target))
    return fixed(target, data, validity(value)), None if good.all() else good


def _integers_from_decimals(value: pa.Array, target: pa.DataType) -> Checked:
    limits = np.iinfo(dtype_of(target))
    kind = pa.decimal256(76, value.type.scale)
    low, high = (pa.scalar(limit, pa.decimal256(76, 0)).cast(kind) for limit in (limits.min, limits.max))
    whole = pc.trunc(value.cast(kind))
    right = pc.and_(pc.less_equal(low, whole), pc.less_equal(whole, high))
    good = _where(right)
    kept = whole if good.all() else pc.if_else(right, whole, pa.scalar(None, kind))
    result = kept.cast(target)
    return _masked_like(result, value), None if good.all() else good


def _in_range(data: npt.NDArray[Any], value: pa.Array, target: pa.DataType) -> Checked:
    kind = dtype_of(target)
    limits = np.iinfo(kind)
    source = np.iinfo(data.dtype)
    if source.min >= limits.min and source.max <= limits.max:
        return fixed(target, data.astype(kind), validity(value)), None
    good = (data >= limits.min) & (data <= limits.max)
    return fixed(target, data.astype(kind), validity(value)), None if good.all() else good


def _decimals(value: pa.Array, target: pa.DataType) -> Checked:
    """Rescale through 256 bits unless the target is wide enough for every value."""
    digits, scale = digits_of(OperandType(value.type))
    if scale <= target.scale and digits - scale <= target.precision - target.scale:
        return value.cast(target), None
    wide = pa.decimal256(76, max(scale, target.scale))
    rounded = _rounded(value.cast(wide), target.scale)
    bound = pa.scalar(10 ** (target.precision - target.scale), pa.decimal256(76, 0)).cast(wide)
    right = pc.less(pc.abs(rounded), bound)
    good = _where(right)
    kept = rounded if good.all() else pc.if_else(right, rounded, pa.scalar(None, wide))
    return kept.cast(target), None if good.all() else good


def _rounded(value: pa.Array, scale: int) -> pa.Array:
    return pc.round(value, scale, "half_towards_infinity")


def _where(right: pa.Array) -> Mask:
    """Return a condition as bools, null being true: a null row converts to null."""
    return np.asarray(pc.fill_null(right, True).to_numpy(zero_copy_only=False), np.bool_)


def _masked_like(result: pa.Array, value: pa.Array) -> pa.Array:
    """Give rows that did not fit a value again, so that only `Checked` says they are wrong."""
    filled = pc.fill_null(result, pa.scalar(0, result.type))
    return fixed(result.type, numbers(filled), validity(value))


def _instants(value: pa.Array, target: pa.DataType) -> Checked:
    """Change the unit: finer multiplies, coarser floors; a zone only changes how an instant reads."""
    if pt.is_date(value.type):
        ticks, have = numbers(value).astype(np.int64) * 86_400, 1
    else:
        ticks, have = numbers(value), PER_SECOND[value.type.unit]
    want = PER_SECOND[target.unit]
    if have >= want:
        result = ticks if have == want else np.floor_divide(ticks, have // want)
        return fixed(target, result, validity(value)), None
    limit = np.iinfo(np.int64).max // (want // have)
    good = (ticks <= limit) & (ticks >= -limit)
    return fixed(target, ticks * (want // have), validity(value)), None if good.all() else good


def _instants_from_integers(value: pa.Array, target: pa.DataType) -> Checked:
    ticks, good = _in_range(numbers(value), value, pa.int64())
    return ticks.view(target), good


def _times_from_text(value: pa.Array, target: pa.DataType) -> pa.Array:
    """Read ISO times, with a zone or without (UTC), in microseconds."""
    micros = pa.timestamp("ns" if target.unit == "ns" else "us")
    zoned = pc.match_substring_regex(value, _ZONE)
    if not pc.any(zoned).as_py():
        return _instants(value.cast(micros), target)[0]
    missing = pa.scalar(None, pa.string())
    naive = pc.if_else(zoned, missing, value).cast(micros)
    aware = pc.if_else(zoned, value, missing).cast(pa.timestamp(micros.unit, "UTC"))
    instants = pc.coalesce(naive.view(pa.int64()), aware.view(pa.int64())).view(micros)
    return _instants(instants, target)[0]


def _pattern(target: pa.DataType) -> str:
    """Return what text must look like at least to become this type."""
    if pt.is_boolean(target):
        return "(?i)^(true|false|0|1)$"
    if pt.is_floating(target):
        return f"(?i)^({_FLOAT}|[+-]?(nan|inf|infinity))$"
    if pt.is_decimal(target):
        return f"^{_FLOAT}$"
    return f"^{_DATE}{_CLOCK}{_ZONE[:-1]}?$" if pt.is_timestamp(target) else f"^{_DATE}$"


def _salvaging(typed: TypedExpression) -> Kernel:
    """Cast each distinct value of a batch that has a bad one, and halve until the bad ones are alone."""
    strict = _strict(typed)
    source, target = typed.args[0].type, typed.type

    def kernel(value: pa.Array) -> pa.Array:
        try:
            return strict(value)
        except pa.ArrowInvalid:
            encoded = value.dictionary_encode()
        distinct = encoded.dictionary
        good = np.ones(len(distinct), np.bool_)
        if pt.is_string(source) and not pt.is_binary(target):
            good = _where(pc.match_substring_regex(distinct, _pattern(target)))
        _halve(strict, distinct, np.flatnonzero(good), good)
        kept = pa.Array.from_buffers(pa.bool_(), len(good), [None, bitmap(good)])
        results = strict(pc.if_else(kept, distinct, pa.scalar(None, source)))
        return results.take(encoded.indices)

    return kernel


def _halve(strict: Kernel, values: pa.Array, rows: Ints, good: Mask) -> None:
    if not len(rows):
        return
    try:
        strict(values.take(pa.array(rows)))
    except pa.ArrowInvalid:
        if len(rows) == 1:
            good[rows[0]] = False
            return
        middle = len(rows) // 2
        _halve(strict, values, rows[:middle], good)
        _halve(strict, values, rows[middle:], good)
