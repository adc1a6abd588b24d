"""The words of descriptors for operators, expressions, windows and durations."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.model.aggregates import AggregateCall
from penstock.model.durations import format_microseconds
from penstock.model.expression_trees import sql_text
from penstock.model.expressions import Expr, Ordering, column_name
from penstock.model.windows import Emission, Windowing

_FLOAT = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")|\b(\d+\.\d+)e0\b""")
"""Quoted text, to be left alone, or a double as SQL writes it."""

Detail = tuple[str, str]
"""A label and the text behind it."""


@dataclass(frozen=True, slots=True)
class Words:
    """The description of an operator: one headline, then details."""

    headline: str
    details: tuple[Detail, ...] = ()


def expression_text(expression: Expr) -> str:
    """Write an expression as SQL."""
    return column_name(expression) or _FLOAT.sub(_without_exponent, sql_text(expression.tree))


def aggregate_text(call: AggregateCall) -> str:
    """Write an aggregate as in SQL."""
    name = call.function if call.user is None else type(call.user).__name__
    arguments = [expression_text(item) for item in call.inputs]
    arguments += [f"{key}={value!r}" for key, value in call.options.items()]
    text = f"{name}({', '.join(arguments)})"
    return text if call.where is None else f"{text} where {expression_text(call.where)}"


def columns_text(columns: Iterable[tuple[str, Expr]]) -> str:
    """Write named expressions; columns that keep their name by that alone."""
    texts = ((name, expression_text(expression)) for name, expression in columns)
    return ", ".join(text if text == name else f"{name} = {text}" for name, text in texts)


def order_text(order: Sequence[Ordering]) -> str:
    """Write an order."""
    return ", ".join(expression_text(item.expression) + (" desc" if item.descending else "") for item in order)


def group_text(keys: Sequence[tuple[str, Expr]]) -> str:
    """Say by which keys rows are grouped."""
    return f"group by {columns_text(keys)}" if keys else "group all rows"


def signed_text(value_us: int) -> str:
    """Write a duration that may be negative."""
    if not value_us:
        return "0s"
    return format_microseconds(value_us) if value_us > 0 else f"-{format_microseconds(-value_us)}"


def windowing_text(windowing: Windowing) -> str:
    """Write a window with its lateness and clock."""
    parts = [str(windowing.window)]
    if windowing.lateness_us:
        parts.append(f"{format_microseconds(windowing.lateness_us)} of lateness")
    if windowing.clock != "event":
        parts.append(f"{windowing.clock} time")
    return ", ".join(parts)


def window_details(windowing: Windowing | None, emission: Emission) -> tuple[Detail, ...]:
    """Say in which windows rows are grouped, and when results leave."""
    if windowing is not None:
        return (("window", f"{windowing_text(windowing)}, emits {_emission(emission)}"),)
    return (("emits", _emission(emission)),)


def error_details(policy: str) -> tuple[Detail, ...]:
    """Say what becomes of bad rows, if it is not the usual."""
    return () if policy == "dead_letter" else (("on error", policy),)


def function_name(function: Callable[..., Any]) -> str:
    """Return what a user's function is called."""
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")


def count_text(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _emission(emission: Emission) -> str:
    if emission.mode == "final":
        return "final results"
    if emission.interval_us is None:
        return "updates every emit_interval"
    if not emission.interval_us:
        return "updates after every batch"
    return f"updates every {format_microseconds(emission.interval_us)}"


def _without_exponent(match: re.Match[str]) -> str:
    return match[1] or match[2]
