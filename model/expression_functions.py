"""Functions that build expressions out of several: cases, coalesce, nullif, concat, hash.

The front door exports them beside ``col`` and ``lit``. Text is a value here, except for `hash_`, which takes column
names.
"""

from sqlglot import exp

from penstock.model.expressions import Expr, Operand, call, operand, to_expr, to_expr_column


def coalesce(first: Operand, *others: Operand) -> Expr:
    """Return the first value that is not null; later ones are only computed where they are needed."""
    nodes = [operand(value, wrap=False) for value in (first, *others)]
    return Expr(exp.Coalesce(this=nodes[0], expressions=nodes[1:]))


def nullif(value: Operand, other: Operand) -> Expr:
    """Return null where both are equal, else the value."""
    nodes = [operand(side, wrap=False) for side in (value, other)]
    return Expr(exp.Nullif(this=nodes[0], expression=nodes[1]))


def concat(*values: Operand) -> Expr:
    """Join texts; null if one of them is null."""
    return call("concat", *values)


def hash_(*columns: Operand) -> Expr:
    """Return the key hash of columns (names or expressions) as int64: the same in every run, on every machine."""
    return call("hash", *[to_expr_column(column) for column in columns])


class When:
    """The start of a case: ``when(condition)`` waits for ``.then(value)``."""

    __slots__ = ("_branches", "_condition")

    def __init__(self, condition: Operand, branches: tuple[exp.If, ...] = ()) -> None:
        """Continue a case that has these branches already."""
        self._condition = to_expr(condition)
        self._branches = branches

    def then(self, value: Operand) -> "Then":
        """Give the value of the rows for which the condition is the first that is true."""
        condition = operand(self._condition, wrap=False)
        return Then((*self._branches, exp.If(this=condition, true=operand(value, wrap=False))))


class Then(Expr):
    """A case, null where no condition is true; goes on with ``.when(...)`` or ends with ``.otherwise(value)``."""

    __slots__ = ("_branches",)

    def __init__(self, branches: tuple[exp.If, ...]) -> None:
        """Make a case of these branches."""
        super().__init__(exp.Case(ifs=[branch.copy() for branch in branches]))
        self._branches = branches

    def when(self, condition: Operand) -> When:
        """Add a branch that is tried when no earlier condition is true."""
        return When(condition, self._branches)

    def otherwise(self, value: Operand) -> Expr:
        """Give the value of all other rows."""
        ifs = [branch.copy() for branch in self._branches]
        return Expr(exp.Case(ifs=ifs, default=operand(value, wrap=False)))


def when(condition: Operand) -> When:
    """Begin a case: ``when(c).then(x).when(d).then(y).otherwise(z)``; a branch not taken never fails."""
    return When(condition)
