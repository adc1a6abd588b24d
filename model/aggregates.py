"""Aggregates as the job graph holds them: what to compute, over which expressions, under which name."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.expressions import Expr


class UserAggregate(ABC):
    """Base class of user-defined aggregates: numeric state columns, changed by whole batches.

    Declare ``state`` (column name -> numpy dtype; a fresh group starts at zero in every column) and ``result_type``.
    All three methods receive the state columns of all groups of the table as arrays and change them in place at the
    given positions. They must not depend on the order of rows.
    """

    state: Mapping[str, Any]
    result_type: Any

    @abstractmethod
    def update(self, state: Mapping[str, NDArray[Any]], groups: NDArray[np.int64], values: Sequence[pa.Array]) -> None:
        """Fold row i (values[j][i]) into group groups[i]; groups repeat, so use ``np.add.at`` and its like."""

    @abstractmethod
    def merge(
        self,
        state: Mapping[str, NDArray[Any]],
        groups: NDArray[np.int64],
        other: Mapping[str, NDArray[Any]],
        other_groups: NDArray[np.int64],
    ) -> None:
        """Fold group other_groups[i] of ``other`` into group groups[i]; groups may repeat."""

    @abstractmethod
    def result(self, state: Mapping[str, NDArray[Any]], groups: NDArray[np.int64]) -> Any:
        """Return one result per entry of groups: a pyarrow array or anything `pyarrow.array` takes."""

    def retract(self, state: Mapping[str, NDArray[Any]], groups: NDArray[np.int64], values: Sequence[pa.Array]) -> None:
        """Undo an earlier `update` of the same rows; without it the aggregate is refused on updating input."""
        raise NotImplementedError

    @property
    def can_retract(self) -> bool:
        """Whether the subclass overrides `retract`."""
        return type(self).retract is not UserAggregate.retract


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of ``agg(...)``.

    ``function`` is one of: count, sum, min, max, mean, variance, stddev, first, last, arg_min, arg_max,
    count_distinct, approx_count_distinct, approx_quantile, collect, user. ``inputs`` are its expressions (none for
    ``count()`` of rows; for arg_min/arg_max the value, then what is compared). ``where`` filters the rows.
    ``options`` are the function's own, for example ``{"q": 0.5}``.
    """

    function: str
    inputs: tuple[Expr, ...] = ()
    where: Expr | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    user: UserAggregate | None = None

    def filter(self, condition: Expr) -> "AggregateCall":
        """Return the same aggregate over the rows for which the condition is true."""
        return replace(self, where=condition if self.where is None else self.where & condition)
