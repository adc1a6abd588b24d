"""The specs of joins, of two streams or of a stream and a table.

In every spec ``output`` names each result column, the side it comes from (0 left, 1 right) and its name there, and
``how`` is one of `HOWS`. Of side -1 is what the join itself says of a pair, as `BUCKET`. ``samplers`` (set by the
planner) are the numbers of the samplers of keys behind the sources of both sides; None: a side is whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from penstock.model.errors import OptionError
from penstock.model.expressions import Expr
from penstock.model.job_graph import OperatorSpec
from penstock.model.lookup_tables import LookupTable
from penstock.model.option_literals import Cardinality, How
from penstock.model.windows import Windowing

HOWS = get_args(How)
"""Which rows without a partner a join puts out, with nulls for the other side."""

VALIDATIONS = get_args(Cardinality)
"""Cardinality of a key on the left and on the right: many, or one, which is checked."""

Output = tuple[tuple[str, int, str], ...]

Samplers = tuple[int | None, int | None]


def check_how(how: str, allowed: tuple[str, ...], verb: str) -> str:
    """Return ``how``.

    Raises:
        OptionError: the verb does not know it.
    """
    if how not in allowed:
        raise OptionError(f"{verb}(how=...) is one of {', '.join(allowed)}, not {how!r}")
    return how


@dataclass(frozen=True)
class JoinSpec(OperatorSpec):
    """Join on equal keys, within a window or (None) for ever.

    Without a window either side may be a changelog, and the result is one unless both are append-only and ``how`` is
    inner. With a window, both are append-only, ``how`` is inner, and ``window_start`` and ``window_end`` may be asked
    for with side -1.

    ``validate`` is one of `VALIDATIONS`; a side whose keys come once is append-only, as the other one, and ``how`` is
    inner. ``where`` (set by the optimiser) is a condition over the columns of `one_side`: only such rows have partners.
    """

    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    output: Output
    windowing: Windowing | None = None
    how: str = "inner"
    validate: str = "m:m"
    where: Expr | None = None
    samplers: Samplers = (None, None)

    @property
    def one_side(self) -> int | None:
        """The side whose keys are unique, the right one if both; None: neither."""
        return {"m:m": None, "1:m": 0}.get(self.validate, 1)


@dataclass(frozen=True)
class IntervalJoinSpec(OperatorSpec):
    """Join on equal keys where left time + lower <= right time <= left time + upper; final.

    ``upper`` is a time in microseconds after the left row's, or an expression over the left's columns: the last
    right time itself. A row without a partner leaves once none can come any more.
    """

    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    output: Output
    lower_us: int
    upper: int | Expr
    how: str = "inner"
    samplers: Samplers = (None, None)


@dataclass(frozen=True)
class AsOfJoinSpec(OperatorSpec):
    """Join every left row with the last right row of its key that is not newer; final, in the order of the left's time.

    ``tolerance_us`` is how much older the right row may be (None: any). ``how`` is left or inner.
    """

    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    output: Output
    tolerance_us: int | None = None
    how: str = "left"


@dataclass(frozen=True)
class LookupSpec(OperatorSpec):
    """Join every row with the rows of a side table, as the table is when the row comes. ``how`` is left or inner."""

    left_keys: tuple[Expr, ...]
    table: LookupTable
    right_keys: tuple[str, ...]
    output: Output
    how: str = "inner"

    def local_files(self) -> Sequence[Path]:
        """Return those of the table."""
        return self.table.local_files()


TwoSided = JoinSpec | IntervalJoinSpec | AsOfJoinSpec
"""Joins of two streams: both sides go by their keys."""
