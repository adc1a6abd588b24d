"""Immutable columns of equal length, in which controllers receive their figures.

A column that is None was not measured at all; a NaN in a column was not measured for that row. `measured` tells both
apart from figures, so that no policy mistakes a missing figure for a number (docs/design/controllers.md 1). Used by
`snapshot`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Names = tuple[str, ...]

_DTYPES: Mapping[Any, type[np.generic]] = {
    Floats: np.float64,
    Floats | None: np.float64,
    Ints: np.int32,
    Bools: np.bool_,
    Bools | None: np.bool_,
}


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Rows of one kind of thing; each field is a column of them all."""

    def __post_init__(self) -> None:
        lengths = {}
        for name, (dtype, may_lack) in _column_types(type(self)).items():
            values = getattr(self, name)
            if values is None and may_lack:
                continue
            if dtype is None:
                lengths[name] = len(values)
                continue
            if type(values) is np.ndarray and values.dtype == dtype and not values.flags.writeable:
                # Of other columns, most likely: nothing is to be copied that nobody writes to.
                array = values
            else:
                array = np.array(values, dtype)
                array.flags.writeable = False
                object.__setattr__(self, name, array)
            if array.ndim != 1:
                raise ValueError(f"{type(self).__name__}.{name} is a column, so it has one dimension")
            lengths[name] = len(array)
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of {type(self).__name__} differ in length: {lengths}")

    def __len__(self) -> int:
        return len(getattr(self, next(iter(_column_types(type(self))))))

    @classmethod
    def none(cls) -> Self:
        """Return columns without rows; optional columns are None."""
        return cls(**{field.name: () for field in fields(cls) if field.default is not None})

    def as_dict(self) -> dict[str, list[Any] | None]:
        """Return plain lists by name, for JSON: None for what was not measured."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, columns: Mapping[str, Any]) -> Self:
        """Return the columns that `as_dict` returned, of an earlier version as well: what it did not have is None.

        Raises:
            ValueError: a column is unknown, or missing that is not optional, or holds something else.
        """
        kinds = _column_types(cls)
        missing = sorted(name for name, (_, is_optional) in kinds.items() if not is_optional and name not in columns)
        unknown = sorted(columns.keys() - kinds.keys())
        if missing or unknown:
            raise ValueError(f"{cls.__name__} of another schema: missing {missing}, unknown {unknown}")
        try:
            return cls(**{name: tuple(v) if kinds[name][0] is None else v for name, v in columns.items()})
        except (TypeError, OverflowError) as error:
            raise ValueError(f"{cls.__name__}: {error}") from error


_Kinds = Mapping[str, tuple[type[np.generic] | None, bool]]
_kinds_of: dict[type[Columns], _Kinds] = {}


def _column_types(kind: type[Columns]) -> _Kinds:
    """Return by column the type of its figures, None for names, and whether the column is optional; cached."""
    types = _kinds_of.get(kind)
    if types is None:
        types = {field.name: (_DTYPES.get(field.type), field.default is None) for field in fields(kind)}
        _kinds_of[kind] = types
    return types


def measured(*columns: Floats | None) -> Bools | None:
    """Return for which rows all of these were measured; None if a column was not measured at all."""
    is_measured: Bools | None = None
    for column in columns:
        if column is None:
            return None
        is_measured = ~np.isnan(column) if is_measured is None else is_measured & ~np.isnan(column)
    return is_measured


def _plain(values: Any) -> list[Any] | None:
    if values is None:
        return None
    if not isinstance(values, np.ndarray):
        return list(values)
    plain: list[Any] = values.tolist()
    if values.dtype.kind != "f":
        return plain
    missing = np.isnan(values)
    return (
        [None if is_missing else value for value, is_missing in zip(plain, missing.tolist(), strict=True)]
        if missing.any()
        else plain
    )
