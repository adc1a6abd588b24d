"""Values of declared types between Python and columns: what state of process functions and their results are made of.

A value is checked when the user hands it over, so that what does not fit is an error of that call.
"""

import copy
import dataclasses
import datetime
import typing
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.operators.functions.python_rows import dataclass_row, python_values
from penstock.model.errors import SchemaError

_EXACT = {pa.float64(): float, pa.bool_(): bool, pa.binary(): bytes, pa.date32(): datetime.date}
_INTEGERS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}


class ValueType:
    """One declared type. A *stored* value is what the column gives back for it, whatever the user handed over.

    Values whose type is exactly ``exact`` (if not None) are stored as they are; all others go through `admit`.
    """

    def __init__(self, kind: Any, type_: pa.DataType, what: str) -> None:
        """``kind`` is the Python type where there is one, ``what`` names the place in errors."""
        self.type = type_
        self.exact = _EXACT.get(type_)
        self.hand = _handing(kind, type_)
        self.admit: Callable[[Any], Any] = self._admit
        self._what = what
        if str(type_) in _INTEGERS:
            self.admit = self._integers()
        elif pt.is_string(type_):
            self.admit = self._admit_text
        elif pt.is_timestamp(type_) and type_.unit == "us" and type_.tz is None:
            self.admit = self._admit_naive

    def to_array(self, values: Sequence[Any]) -> pa.Array:
        """Return stored values as a column."""
        return pa.array(values, self.type)

    def to_python(self, column: pa.Array) -> list[Any]:
        """Return a column as stored values."""
        return python_values(column)

    def shown(self, stored: Any) -> Any:
        """Return a stored value as the user sees it."""
        return stored if self.hand is None or stored is None else self.hand(stored)

    def cast(self, values: Any) -> pa.Array:
        """Return what a user gave for a column (Arrow, NumPy or a sequence) in this type.

        Raises:
            SchemaError: it does not fit.
        """
        try:
            if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
                array = pa.array(values) if not isinstance(values, pa.ChunkedArray) else values.combine_chunks()
                array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
                return array if array.type == self.type else array.cast(self.type)
            array = pa.array(values, from_pandas=False)
            return array if array.type == self.type else array.cast(self.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError) as error:
            raise SchemaError(f"{self._what} is {self.type}, which does not take what was given: {error}") from None

    def _admit(self, value: Any) -> Any:
        if value is None:
            return None
        value = _plain(value)
        if (pt.is_binary(self.type) and isinstance(value, str)) or (pt.is_nested(self.type) and isinstance(value, str)):
            raise self._misfit(value)
        try:
            return python_values(pa.array([value], self.type))[0]
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise self._misfit(value) from error

    def _integers(self) -> Callable[[Any], Any]:
        bits = _INTEGERS[str(self.type)]
        unsigned = pt.is_unsigned_integer(self.type)
        low = 0 if unsigned else -(1 << (bits - 1))
        high = (1 << bits) - 1 if unsigned else (1 << (bits - 1)) - 1

        def admit(value: Any) -> Any:
            if type(value) is int and low <= value <= high:
                return value
            return self._admit(value)

        return admit

    def _admit_text(self, value: Any) -> Any:
        if type(value) is str:
            if not value.isascii():
                try:
                    value.encode()
                except UnicodeEncodeError:
                    raise self._misfit(value) from None
            return value
        if isinstance(value, bytes):
            raise self._misfit(value)
        return self._admit(value)

    def _admit_naive(self, value: Any) -> Any:
        return value if type(value) is datetime.datetime and value.tzinfo is None else self._admit(value)

    def _misfit(self, value: Any) -> SchemaError:
        text = repr(value)
        return SchemaError(
            f"{self._what} is {self.type}, which cannot hold {text if len(text) < 80 else text[:77] + '...'} "
            f"({type(value).__name__})"
        )


def _plain(value: Any) -> Any:
    """Return a value with its dataclasses as dicts."""
    value = value if (row := dataclass_row(value)) is None else row
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value)) if type(value) in (list, tuple) else [_plain(item) for item in value]
    return value


def _handing(kind: Any, type_: pa.DataType) -> Callable[[Any], Any] | None:
    """Return what makes the user's own object of a stored value; None where values cannot change."""
    if not pt.is_nested(type_):
        return None
    make = _making(kind)
    return copy.deepcopy if make is None else make


def _making(kind: Any) -> Callable[[Any], Any] | None:
    arguments = [item for item in typing.get_args(kind) if item is not type(None)]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        makers = {field.name: _making(hints[field.name]) for field in dataclasses.fields(kind)}
        data_class: Callable[..., Any] = kind

        def make(stored: Any) -> Any:
            if stored is None:
                return None
            return data_class(
                **{name: stored[name] if maker is None else maker(stored[name]) for name, maker in makers.items()}
            )

        return make
    if typing.get_origin(kind) is list:
        of = _making(arguments[0])
        return _copy_list if of is None else lambda stored: None if stored is None else [of(item) for item in stored]
    if typing.get_origin(kind) is typing.Annotated or type(None) in typing.get_args(kind):
        return _making(arguments[0])
    return copy.deepcopy if isinstance(kind, pa.DataType) and pt.is_nested(kind) else None


def _copy_list(stored: Any) -> Any:
    return None if stored is None else list(stored)
