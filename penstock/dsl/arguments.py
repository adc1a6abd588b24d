"""Arguments of the methods of streams, checked: every refusal names the value, what to write instead, and where.

`penstock.dsl.stream` and `penstock.dsl.sinks` call it before they build an operator.
"""

import dataclasses
import reprlib
import typing
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any

from penstock.model.aggregates import AggregateCall
from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import OptionError, PlanError
from penstock.model.expressions import Expr, Ordering, col, to_expr
from penstock.model.source_location import user_location
from penstock.model.windows import Window, Windowing

Column = str | Expr
Order = str | Expr | Ordering

_EXAMPLES = {
    "map": "map(lambda row: {**row}), or with_columns(...) for expressions",
    "flat_map": "flat_map(lambda row: [row, row])",
    "map_batches": "map_batches(lambda batch: batch)",
    "map_async": "map_async(fetch), where fetch is an async function of the row",
    "reduce": "reduce(lambda older, newer: newer)",
    "for_each_batch": "for_each_batch(print)",
}


def check_condition(verb: str, value: object, *, function: bool = False) -> None:
    """Check that a condition is an expression or, with ``function``, a function of the row.

    Raises:
        PlanError: it is neither.
    """
    if isinstance(value, Expr) or (function and callable(value)):
        return
    takes = "an expression or a function of the row" if function else "expressions"
    write = f"ps.sql({_text(value)})" if isinstance(value, str) else 'an expression such as col("price") > 3'
    raise refusal(f"{verb}() takes {takes}, not {shown(value)}; write {write}")


def check_function(verb: str, value: object) -> None:
    """Check that a verb got something to call.

    Raises:
        PlanError: it did not.
    """
    if not callable(value):
        raise refusal(f"{verb}() takes a function, not {shown(value)}; write {_EXAMPLES[verb]}")


def check_accuracy(value: object) -> float:
    """Return a minimum accuracy.

    Raises:
        OptionError: it is no number in [0, 1].
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise OptionError(
            f"a minimum accuracy is a number between 0 and 1, not {shown(value)}; write with_min_accuracy(0.9)"
        )
    return float(value)


def check_max_lag(value: Duration) -> int:
    """Return how long rows may wait, in microseconds.

    Raises:
        OptionError: it is no duration above zero.
    """
    lag_us = to_microseconds(value, "max_lag")
    if lag_us <= 0:
        raise OptionError(f"max_lag must be above zero, not {shown(value)}; write with_max_lag('10s')")
    return lag_us


RESERVED = ("CPU", "GPU", "memory", "object_store_memory")
"""Names of resources that Ray has itself."""


def check_resources(num_gpus: float, custom: Mapping[str, float] | None) -> tuple[tuple[str, float], ...]:
    """Return what each instance of an operator needs, by Ray's names.

    Raises:
        OptionError: an amount is not above 0, or above 1 and not whole; a name is one of Ray's own; there is nothing.
    """
    asked = ({"GPU": num_gpus} if num_gpus != 0 else {}) | dict(custom or {})
    for name in custom or {}:
        if not isinstance(name, str) or not name or name in RESERVED:
            raise OptionError(
                f"custom resources have names of your own, not {shown(name)}; each instance has a core, and "
                "num_gpus says how many GPUs it needs"
            )
    for name, amount in asked.items():
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool) and isfinite(amount)
        if not is_number or amount <= 0 or (amount > 1 and amount != int(amount)):
            raise OptionError(
                f"an instance needs a part of one {name}, or a whole number of them, not {shown(amount)}; write "
                "resources(num_gpus=1) or resources(custom={'tpu': 4})"
            )
    if not asked:
        raise OptionError("resources() says what each instance needs; write resources(num_gpus=1)")
    return tuple(sorted((name, float(amount)) for name, amount in asked.items()))


def check_priority(value: object) -> int:
    """Return a priority.

    Raises:
        OptionError: it is no whole number.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise OptionError(f"a priority is a whole number, not {shown(value)}; write with_priority(1)")
    return int(value)


def windowing(window: object, verb: str = "window") -> Windowing:
    """Return a window with its lateness, clock and emission.

    Raises:
        PlanError: it is no window.
    """
    if isinstance(window, Windowing):
        return window
    if isinstance(window, Window):
        return Windowing(window)
    size = _text(window) if isinstance(window, str) else '"10s"'
    expected = "a window" if verb == "window" else "a window in window=..."
    write = f"tumbling({size})" if verb == "window" else f"window=tumbling({size})"
    raise refusal(f"{verb}() takes {expected}, not {shown(window)}; write {write}")


def named(verb: str, columns: Sequence[object]) -> list[tuple[str, Expr]]:
    """Return columns given by position with the names they get.

    Raises:
        PlanError: one is neither a name nor an expression.
    """
    expressions: list[Expr] = []
    for item in columns:
        if isinstance(item, list | tuple):
            raise refusal(f"{verb}() takes columns one by one, not {shown(item)}; write {verb}(*[...])")
        if not isinstance(item, str | Expr):
            raise refusal(
                f"{verb}() takes column names and expressions, not {shown(item)}; "
                f'write {verb}("item") or {verb}(total=col("price") * 2)'
            )
        expressions.append(col(item) if isinstance(item, str) else item)
    return [(expression.name, expression) for expression in expressions]


def keywords(columns: Mapping[str, Column]) -> list[tuple[str, Expr]]:
    """Return columns given by keyword; text names a column, any other value is a constant."""
    return [(name, col(item) if isinstance(item, str) else to_expr(item)) for name, item in columns.items()]


def orderings(verb: str, by: object) -> tuple[Ordering, ...]:
    """Return what to order by.

    Raises:
        PlanError: something is neither a column nor an expression, or there is nothing.
    """
    chosen: list[Ordering] = []
    for item in by if isinstance(by, list | tuple) else [by]:
        if isinstance(item, Ordering):
            chosen.append(item)
        elif isinstance(item, str | Expr):
            chosen.append(Ordering(col(item) if isinstance(item, str) else item))
        else:
            write = 'write by=col("price").desc()'
            raise refusal(f"{verb}() orders by columns and expressions, not {shown(item)}; {write}")
    if not chosen:
        raise refusal(f'{verb}() needs something to order by; write by=col("price").desc()')
    return tuple(chosen)


def aggregates(calls: Mapping[str, AggregateCall]) -> tuple[tuple[str, AggregateCall], ...]:
    """Return the aggregates of an ``agg(...)``.

    Raises:
        PlanError: one is no aggregate.
    """
    for name, call in calls.items():
        if not isinstance(call, AggregateCall):
            raise _no_aggregate(name, call)
    return tuple(calls.items())


def _no_aggregate(name: str, value: object) -> PlanError:
    hint = ""
    if value in (sum, min, max):
        own = str(getattr(value, "__name__", ""))
        hint = f"; Python's own {own} is none, write {own}_(...) of penstock"
    elif isinstance(value, str) and len(value) == 1:
        # A letter of the name is what max("price") returns.
        hint = "; Python's own max or min is none, write max_(...) or min_(...) of penstock"
    return refusal(f"agg({name}=...) needs an aggregate such as count() or sum_('price'), not {shown(value)}{hint}")


def return_annotation(function: Callable[..., Any]) -> Any | None:
    """Return the dataclass a function says it returns, bare or as the items of a collection; else None."""
    try:
        annotation = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None
    arguments = typing.get_args(annotation)
    if len(arguments) == 1:
        annotation = arguments[0]
    return annotation if dataclasses.is_dataclass(annotation) else None


def refusal(sentence: str) -> PlanError:
    """Return the error that says a sentence and the user's place."""
    return PlanError(f"{sentence} (at {user_location()})")


def shown(value: object) -> str:
    """Return a value as messages show it: in one short line, functions and classes by their name."""
    name = getattr(value, "__name__", None)
    if isinstance(name, str) and callable(value):
        return f"the {'class' if isinstance(value, type) else 'function'} {name}"
    text = repr(value) if isinstance(value, Expr) else reprlib.repr(value)
    if text.startswith("<"):
        return f"an object of type {type(value).__name__}"
    return " ".join(text.split())


def _text(value: str) -> str:
    """Return text as it is written in Python, in double quotes where that needs no escapes."""
    return f'"{value}"' if value.isprintable() and not set(value) & {'"', "\\"} else repr(value)
