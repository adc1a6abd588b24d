"""Cases, columnar and lazy in errors: a branch that fails is computed again only for the rows that take it.

`expressions.program` builds a step from it for ``case``; ``coalesce`` is a case as soon as a later value may fail.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.engine.expressions.values import (
    Encoded,
    Kernel,
    RowError,
    bits,
    booleans,
    numbers,
    plain,
)
from penstock.model.typed_expressions import TypedExpression
from penstock.state.keys.arrays import Mask

Branch = Callable[[Sequence[pa.Array], int], pa.Array]
"""Computes a branch that may fail: from its columns and their length."""

_FAILURES = (pa.ArrowInvalid, RowError)


class LazyBranch:
    """A branch that may fail: computed for all rows until that fails once, from then on for its own rows only."""

    def __init__(self, branch: Branch) -> None:
        self._branch = branch
        self._whole = True

    def whole(self, columns: Sequence[pa.Array], rows: int) -> pa.Array | None:
        """Return the branch for every row; None if it has to be computed for its own rows."""
        if self._whole:
            try:
                return self._branch(columns, rows)
            except _FAILURES:
                self._whole = False
        return None

    def own(self, columns: Sequence[pa.Array], taken: Mask) -> pa.Array:
        """Return the branch for the rows that take it."""
        mask = booleans(taken, None)
        return self._branch([column.filter(mask) for column in columns], int(taken.sum()))


def case_kernel(typed: TypedExpression, branches: Sequence[LazyBranch | None], columns: Sequence[range]) -> Kernel:
    """Return the kernel of a case, which takes text encoded or not.

    It takes the conditions, then the value of every branch and of the default (whatever stands for a lazy one is
    ignored), then the columns of the lazy ones; ``columns[k]`` are the positions of branch k's among these.
    """
    conditions = len(branches) - 1
    results = [*typed.args[1:-1:2], typed.args[-1]]
    table = None
    if all(value.op == "literal" for value in results):
        table = pa.concat_arrays([pa.repeat(value.value, 1) for value in results])
    if_else = not any(branches) and _is_fixed(typed.type)

    def kernel(*arguments: Any) -> pa.Array:
        tests = [plain(test) for test in arguments[:conditions]]
        values = [_unless_null(value) for value in arguments[conditions : 2 * conditions + 1]]
        extra = [plain(value) for value in arguments[2 * conditions + 1 :]]
        rows = max(len(value) for value in arguments if not isinstance(value, pa.Scalar))
        if table is not None:
            return table.take(pa.array(_choice(tests, rows)))
        if if_else:
            return _nested(tests, [plain(value) for value in values], rows)
        choice = _choice(tests, rows)
        pieces = list(values)
        for index, branch in enumerate(branches):
            if branch is not None:
                mine = [extra[position] for position in columns[index]]
                pieces[index] = _lazy(branch, mine, choice == index, rows)
        return _gathered(choice, pieces)

    return kernel


def _lazy(branch: LazyBranch, columns: Sequence[pa.Array], taken: Mask, rows: int) -> pa.Array | None:
    if not taken.any():
        return None
    whole = branch.whole(columns, rows)
    return branch.own(columns, taken) if whole is None else whole


def _choice(tests: Sequence[Any], rows: int) -> npt.NDArray[Any]:
    """Return which branch every row takes: the first whose condition is true. Arithmetic, for masks are slow."""
    kind: Any = np.int8 if len(tests) < 128 else np.int32
    choice: npt.NDArray[Any] = np.full(rows, len(tests), kind)
    free = np.ones(rows, np.bool_)
    for index, test in enumerate(tests):
        taking = bits(test, rows) & free
        choice -= taking.astype(kind) * kind(len(tests) - index)
        free ^= taking
    return choice


def _nested(tests: Sequence[Any], values: Sequence[Any], rows: int) -> pa.Array:
    result = values[-1]
    for test, value in zip(reversed(tests), reversed(values[:-1]), strict=True):
        if test.null_count if not isinstance(test, pa.Scalar) else not test.is_valid:
            test = pc.fill_null(test, False)
        result = pc.if_else(test, value, result)
    return pa.repeat(result, rows) if isinstance(result, pa.Scalar) else result


def _gathered(choice: npt.NDArray[Any], pieces: Sequence[Any]) -> pa.Array:
    """Pick each row's value from its branch's piece: a constant, the value of every row, or of its own rows only.

    None is the piece of a branch that no row takes. Of encoded text the distinct values take part.
    """
    rows = len(choice)
    pool: list[pa.Array] = []
    first = np.zeros(len(pieces), np.int32)
    filled = 0
    for index, piece in enumerate(pieces):
        if piece is None:
            continue
        first[index] = filled
        pool.append(_distinct(piece))
        filled += len(pool[-1])
    indices = first.take(choice)
    for index, piece in enumerate(pieces):
        if piece is None or isinstance(piece, pa.Scalar):
            continue
        mine = choice == index
        if len(piece) == rows:
            encoded = isinstance(piece, Encoded)
            own = numbers(piece.indices) if encoded else np.arange(rows, dtype=np.int32)
            indices += own * mine
        else:
            indices[mine] += np.arange(len(piece), dtype=np.int32)
    return pa.concat_arrays(pool).take(pa.array(indices))


def _distinct(piece: Any) -> pa.Array:
    if isinstance(piece, Encoded):
        return piece.dictionary.values
    return pa.repeat(piece, 1) if isinstance(piece, pa.Scalar) else piece


def _unless_null(value: Any) -> Any:
    """Return encoded text as it is when every row has an index, and any other value plain."""
    return value if isinstance(value, Encoded) and not value.indices.null_count else plain(value)


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pt.is_primitive(kind) or pt.is_decimal(kind) or pt.is_boolean(kind))
