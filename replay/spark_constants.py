"""Constants as Spark SQL text, for `spark_sql` and its parts; none depends on an option of the session but its zone."""

import math

import pyarrow as pa
import pyarrow.types as pt

from penstock.model.schema import normal_type
from penstock.replay.spark_types import carrier, sql_type

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}


def quoted(text: str) -> str:
    """Return text as a literal; ``$`` is escaped because Spark replaces variables inside literals too."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024").replace("\0", "\\u0000")
    return f"'{escaped}'"


def missing(kind: pa.DataType) -> str:
    """Return the null of a type."""
    return "NULL" if pt.is_null(kind) else f"CAST(NULL AS {sql_type(kind)})"


def constant(scalar: pa.Scalar) -> str:
    """Return a constant of any type that an expression may hold.

    Raises:
        SchemaError: Spark has no such type.
    """
    kind = scalar.type
    name = sql_type(kind)
    if not scalar.is_valid:
        return missing(kind)
    if pt.is_string(normal_type(kind)):
        return quoted(scalar.as_py())
    if pt.is_boolean(kind):
        return str(scalar.as_py()).upper()
    if pt.is_floating(kind):
        return f"CAST('{_float(scalar.as_py())}' AS {name})"
    if pt.is_decimal(kind):
        return f"CAST('{scalar.as_py():f}' AS {name})"
    if pt.is_integer(kind):
        return f"CAST('{scalar.as_py()}' AS {name})"
    if pt.is_date(kind):
        return f"date_from_unix_date({scalar.cast(pa.date32()).value})"
    if pt.is_timestamp(kind):
        return f"CAST(timestamp_micros({_micros(scalar)}) AS {name})"
    if pt.is_duration(kind):
        return interval(str(_micros(scalar)))
    return f"X'{scalar.cast(carrier(kind)).as_py().hex()}'"


def interval(micros: str) -> str:
    """Return the interval of as many microseconds as ``micros`` is the text of."""
    return f"(timestamp_micros({micros}) - timestamp_micros(0))"


def _micros(scalar: pa.Scalar) -> int:
    return int(scalar.value) * (1_000_000 // _PER_SECOND[scalar.type.unit])


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
