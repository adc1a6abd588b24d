"""The casts between types, and alternatives where there is none."""

import pyarrow as pa
import pyarrow.types as pt

from penstock.model.coercion import is_number


def is_castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether some values of ``source`` can become ``target``."""
    if source == target or pt.is_null(source):
        return True
    if pt.is_string(source):
        return not bool(pt.is_duration(target))
    if pt.is_string(target):
        other = pt.is_boolean(source) or pt.is_binary(source)
        return bool(is_number(source) or _is_instant(source) or other)
    if is_number(source) and is_number(target):
        return True
    if pt.is_boolean(source) or pt.is_boolean(target):
        return bool(pt.is_integer(source) or pt.is_integer(target))
    if _is_instant(source) and _is_instant(target):
        return True
    return bool(pt.is_integer(source) and pt.is_timestamp(target))


def cast_hint(source: pa.DataType, target: pa.DataType) -> str:
    """Return the alternative to a cast that does not exist; empty if there is none."""
    if pt.is_timestamp(source) and is_number(target):
        return ": use .dt.epoch_us() or .dt.epoch_ms()"
    if pt.is_nested(source):
        return ": cast its fields"
    if is_number(source) and pt.is_boolean(target):
        return ": compare it with 0"
    return ""


def _is_instant(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) or pt.is_date32(kind))
