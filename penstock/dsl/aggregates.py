"""Aggregates as users write them; each takes a column name or an expression and can be ``.filter(condition)``-ed."""

from penstock.model.aggregates import AggregateCall, UserAggregate
from penstock.model.errors import OptionError
from penstock.model.expressions import Expr, col

Column = str | Expr


def count(column: Column | None = None) -> AggregateCall:
    """Count rows, or the values of a column that are not null."""
    return AggregateCall("count", () if column is None else (_expression(column),))


def sum_(column: Column) -> AggregateCall:
    """Add up; integers stay integers and never wrap."""
    return _call("sum", column)


def min_(column: Column) -> AggregateCall:
    """The least value."""
    return _call("min", column)


def max_(column: Column) -> AggregateCall:
    """The greatest value; NaN is greater than any number."""
    return _call("max", column)


def mean(column: Column) -> AggregateCall:
    """The arithmetic mean, as a double."""
    return _call("mean", column)


def variance(column: Column) -> AggregateCall:
    """The sample variance; null for fewer than two values."""
    return _call("variance", column)


def stddev(column: Column) -> AggregateCall:
    """The sample standard deviation; null for fewer than two values."""
    return _call("stddev", column)


def first(column: Column) -> AggregateCall:
    """The value with the least event time; among equals the least value."""
    return _call("first", column)


def last(column: Column) -> AggregateCall:
    """The value with the greatest event time; among equals the greatest value."""
    return _call("last", column)


def arg_min(column: Column, by: Column) -> AggregateCall:
    """The value of ``column`` where ``by`` is least; among equals the least value."""
    return _call("arg_min", column, by)


def arg_max(column: Column, by: Column) -> AggregateCall:
    """The value of ``column`` where ``by`` is greatest; among equals the least value."""
    return _call("arg_max", column, by)


def count_distinct(column: Column) -> AggregateCall:
    """Count different values, exactly."""
    return _call("count_distinct", column)


def approx_count_distinct(column: Column) -> AggregateCall:
    """Count different values within about 2%, in bounded memory (HyperLogLog; needs the extra ``sketches``)."""
    return _call("approx_count_distinct", column)


def approx_quantile(column: Column, q: float) -> AggregateCall:
    """The value below which a share ``q`` of all values lies, in bounded memory (KLL; needs the extra ``sketches``).

    Raises:
        OptionError: ``q`` is outside [0, 1].
    """
    if not 0 <= q <= 1:
        raise OptionError(f"a quantile is between 0 and 1, not {q!r}")
    return AggregateCall("approx_quantile", (_expression(column),), options={"q": float(q)})


def collect_list(column: Column) -> AggregateCall:
    """All values as a list, in order of value."""
    return _call("collect", column)


def aggregate(implementation: UserAggregate, *columns: Column) -> AggregateCall:
    """Use an aggregate of your own over these columns."""
    return AggregateCall("user", tuple(_expression(column) for column in columns), user=implementation)


def _call(function: str, *columns: Column) -> AggregateCall:
    return AggregateCall(function, tuple(_expression(column) for column in columns))


def _expression(column: Column) -> Expr:
    return col(column) if isinstance(column, str) else column
