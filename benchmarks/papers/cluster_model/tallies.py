"""Sums of values by what they belong to, and columns of lists, typed. Called all over the simulated cluster."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats, Ints


def tally(owner: NDArray[np.int64], values: NDArray[np.generic], count: int) -> Floats:
    """Return for each of ``count`` owners the sum of its values."""
    return cast(Floats, np.bincount(owner, values, count))


def ints(values: Iterable[int]) -> Ints:
    """Return a column of whole numbers."""
    return np.array(values, np.int32)


def bools(values: Iterable[bool]) -> Bools:
    """Return a column of truths."""
    return np.array(values, np.bool_)


def columns_of(items: Sequence[Any], names: Iterable[str]) -> dict[str, Floats]:
    """Return a column of numbers for each of these fields."""
    return {name: floats(getattr(item, name) for item in items) for name in names}


def floats(values: Iterable[float]) -> Floats:
    """Return a column of numbers."""
    return np.array(list(values), np.float64)
