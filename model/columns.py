"""Columns of equal length that nothing can change: the shape of what controllers read.

A column that is None was not measured at all; a NaN in a column was not measured for that row. `measured` tells both
apart from figures, so that no policy takes a missing number for one (docs/design/controllers.md 1). Used by `snapshot`.
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
}


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Rows of one kind of thing; each field is a column of them all."""

    def __post_init__(self) -> None:
        lengths = {}
        for name, (dtype, may_lack) in _kinds(type(self)).items():
            values = getattr(self, name)
            if values is None and may_lack:
                continue
            if dtype is None:
                lengths[name] = len(values)
                continue
            array = np.array(values, dtype)
            if array.ndim != 1:
                raise ValueError(f"{type(self).__name__}.{name} is a column, so it has one dimension")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
            lengths[name] = len(array)
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of {type(self).__name__} differ in length: {lengths}")

    def __len__(self) -> int:
        return len(getattr(self, next(iter(_kinds(type(self))))))

    @classmethod
    def none(cls) -> Self:
        """Return columns of no rows; those that may be missing are."""
        return cls(**{field.name: () for field in fields(cls) if field.default is not None})

    def as_dict(self) -> dict[str, list[Any] | None]:
        """Return plain lists by name, for JSON: None for what was not measured."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, columns: Mapping[str, Any]) -> Self:
        """Return the columns that `as_dict` gave.

        Raises:
            ValueError: a column is missing or unknown, or holds something else.
        """
        kinds = _kinds(cls)
        if kinds.keys() != columns.keys():
            missing, unknown = sorted(kinds.keys() - columns.keys()), sorted(columns.keys() - kinds.keys())
            raise ValueError(f"{cls.__name__} of another schema: missing {missing}, unknown {unknown}")
        try:
            return cls(**{name: tuple(v) if kinds[name][0] is None else v for name, v in columns.items()})
        except (TypeError, OverflowError) as error:
            raise ValueError(f"{cls.__name__}: {error}") from error


_Kinds = Mapping[str, tuple[type[np.generic] | None, bool]]
_kinds_of: dict[type[Columns], _Kinds] = {}


def _kinds(kind: type[Columns]) -> _Kinds:
    """Return by column the type of its figures, None for names, and whether all of it may lack; looked up once."""
    found = _kinds_of.get(kind)
    if found is None:
        found = {field.name: (_DTYPES.get(field.type), field.default is None) for field in fields(kind)}
        _kinds_of[kind] = found
    return found


def measured(*columns: Floats | None) -> Bools | None:
    """Return for which rows all of these were measured; None if a column was not measured at all."""
    known: Bools | None = None
    for column in columns:
        if column is None:
            return None
        known = ~np.isnan(column) if known is None else known & ~np.isnan(column)
    return known


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
        [None if gone else value for value, gone in zip(plain, missing.tolist(), strict=True)]
        if missing.any()
        else plain
    )
