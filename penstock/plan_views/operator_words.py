"""Says in words what one operator does."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.model.aggregates import AggregateCall
from penstock.model.dead_letters import LetterTarget
from penstock.model.durations import format_microseconds
from penstock.model.expression_trees import sql_text
from penstock.model.expressions import Expr, Ordering, col, column_name
from penstock.model.job_graph import (
    MAIN,
    AggregateSpec,
    AsyncFunctionSpec,
    BatchFunctionSpec,
    FilterSpec,
    OperatorNode,
    ProjectSpec,
    ReduceSpec,
    RowFunctionSpec,
    SinkSpec,
    SourceSpec,
    SplitSpec,
    TimeSpec,
    UnionSpec,
)
from penstock.model.join_specs import AsOfJoinSpec, IntervalJoinSpec, JoinSpec, LookupSpec
from penstock.model.keyed_specs import FirstSpec, OverSpec, ProcessSpec, TopSpec
from penstock.model.windows import Emission, Windowing

_FLOAT = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")|\b(\d+\.\d+)e0\b""")
"""Quoted text, to be left alone, or a double as SQL writes it."""


@dataclass(frozen=True, slots=True)
class Words:
    """What an operator does: one headline, then (label, text) pairs."""

    headline: str
    details: tuple[tuple[str, str], ...] = ()


def words(node: OperatorNode) -> Words:
    """Describe an operator."""
    spec = node.spec
    match spec:
        case SourceSpec():
            return _source(node, spec)
        case FilterSpec():
            return Words(f"where {expression_text(spec.predicate)}")
        case ProjectSpec():
            condition = () if spec.where is None else (("where", expression_text(spec.where)),)
            return Words(f"select {_named(spec.columns)}", condition)
        case RowFunctionSpec():
            arguments = "row" if spec.columns is None else ", ".join(spec.columns)
            produced = () if spec.kind == "filter" else (("columns", ", ".join(spec.fields.names)),)
            headline = f"{spec.kind} {_function(spec.function)}({arguments})"
            return Words(headline, (*produced, *_on_error(spec.on_error)))
        case BatchFunctionSpec():
            headline = f"map batches {_function(spec.function)}({spec.format})"
            columns = ("columns", ", ".join(spec.fields.names))
            return Words(headline, (columns, *_on_error(spec.on_error)))
        case UnionSpec():
            return Words(f"union of {len(node.inputs)} streams")
        case SplitSpec():
            parts = tuple((name, f"where {expression_text(item)}") for name, item in spec.outputs)
            return Words("split", (*parts, ("rest", "all other rows")))
        case AggregateSpec():
            calls = tuple((name, aggregate_text(call)) for name, call in spec.aggregates)
            return Words(_group(spec.keys), (*_window(spec.windowing, spec.emission), *calls))
        case ReduceSpec():
            window = _window(spec.windowing, spec.emission)
            return Words(_group(spec.keys), (*window, ("reduce", _function(spec.function))))
        case JoinSpec() | IntervalJoinSpec() | AsOfJoinSpec() | LookupSpec():
            return _join(spec)
        case TopSpec():
            return _top(spec)
        case FirstSpec():
            ttl = () if spec.ttl_us is None else (("forgotten after", format_microseconds(spec.ttl_us)),)
            by = "as they arrive" if spec.by_arrival else "by event time"
            return Words(f"first row per {_named(spec.keys)}", (("order", by), *ttl))
        case OverSpec():
            frame = "all rows so far" if spec.rows is None else f"the last {_count(spec.rows, 'row')}"
            chosen = [("order", _order(spec.order))] if spec.order else []
            calls = tuple((name, aggregate_text(call)) for name, call in spec.aggregates)
            return Words(f"over {frame} of {_named(spec.keys) or 'all rows'}", (*chosen, *calls))
        case ProcessSpec():
            details = (("columns", ", ".join(spec.fields.names)), ("state", ", ".join(spec.states) or "none"))
            order = ("order", "event time" if spec.order == "event" else "arrival")
            return Words(f"process {_function(spec.function)} per {_named(spec.keys)}", (*details, order))
        case AsyncFunctionSpec():
            limits = (
                "calls",
                f"{spec.capacity} at a time, {format_microseconds(spec.timeout_us)} each, {spec.retries} retries",
            )
            columns = ("columns", ", ".join(spec.fields.names))
            return Words(f"map async {_function(spec.function)}", (limits, columns, *_on_error(spec.on_error)))
        case TimeSpec():
            delay = format_microseconds(spec.delay_us) if spec.delay_us else "0s"
            return Words(f"event time {spec.column}", (("watermark", f"{delay} behind the input's"),))
        case SinkSpec():
            return _sink(spec)


def aggregate_text(call: AggregateCall) -> str:
    """Write an aggregate as in SQL."""
    name = call.function if call.user is None else type(call.user).__name__
    arguments = [expression_text(item) for item in call.inputs]
    arguments += [f"{key}={value!r}" for key, value in call.options.items()]
    text = f"{name}({', '.join(arguments)})"
    return text if call.where is None else f"{text} where {expression_text(call.where)}"


def expression_text(expression: Expr) -> str:
    """Write an expression as SQL."""
    return column_name(expression) or _FLOAT.sub(_without_exponent, sql_text(expression.tree))


def _source(node: OperatorNode, spec: SourceSpec) -> Words:
    schema = node.outputs[MAIN]
    details = [("columns", ", ".join(schema.fields.names))]
    predicate = getattr(spec.source, "predicate", None)
    if isinstance(predicate, Expr):
        details.append(("pushed down", expression_text(predicate)))
    if schema.time is not None:
        delay = format_microseconds(spec.watermark_delay_us) if spec.watermark_delay_us else "0s"
        ahead = "" if spec.max_ahead_us is None else f", at most {format_microseconds(spec.max_ahead_us)} ahead"
        details.append(("event time", f"{schema.time.name}, watermark {delay} behind{ahead}"))
    return Words(f"read {spec.source.describe()}", (*details, *_on_error(spec.on_error), *_letters(spec.dead_letters)))


def _join(spec: JoinSpec | IntervalJoinSpec | AsOfJoinSpec | LookupSpec) -> Words:
    right = [col(name) for name in spec.right_keys] if isinstance(spec, LookupSpec) else spec.right_keys
    sides = ([expression_text(key) for key in keys] for keys in (spec.left_keys, right))
    pairs = zip(*sides, strict=True)
    keys = ", ".join(left if left == right else f"{left} = {right}" for left, right in pairs)
    how = "" if spec.how == "inner" else f"{spec.how} "
    columns = ("columns", ", ".join(name for name, _, _ in spec.output))
    match spec:
        case IntervalJoinSpec():
            upper = expression_text(spec.upper) if isinstance(spec.upper, Expr) else _signed(spec.upper)
            return Words(
                f"{how}interval join on {keys}", (("between", f"{_signed(spec.lower_us)} and {upper}"), columns)
            )
        case AsOfJoinSpec():
            tolerance = (
                "any age" if spec.tolerance_us is None else f"up to {format_microseconds(spec.tolerance_us)} old"
            )
            return Words(f"{how}as-of join on {keys}", (("last row", tolerance), columns))
        case LookupSpec():
            return Words(f"{how}lookup on {keys}", (("table", spec.table.describe()), columns))
    window = "none: both sides are kept" if spec.windowing is None else _windowing(spec.windowing)
    if spec.one_side is not None:
        window = f"none: rows are kept until they meet, for keys are {spec.validate}"
    where = () if spec.where is None else (("where", expression_text(spec.where)),)
    return Words(f"{how}join on {keys}", (("window", window), *where, columns))


def _top(spec: TopSpec) -> Words:
    by = _order(spec.order)
    rank = () if spec.rank is None else (("rank", spec.rank),)
    return Words(f"first {_count(spec.rows, 'row')} per {_named(spec.keys) or 'all rows'}", (("order", by), *rank))


def _order(order: Sequence[Ordering]) -> str:
    return ", ".join(expression_text(item.expression) + (" desc" if item.descending else "") for item in order)


def _signed(value_us: int) -> str:
    if not value_us:
        return "0s"
    return format_microseconds(value_us) if value_us > 0 else f"-{format_microseconds(-value_us)}"


def _sink(spec: SinkSpec) -> Words:
    mode = spec.mode if not spec.key else f"{spec.mode} by {', '.join(spec.key)}"
    quality = f"{mode}, min accuracy {spec.min_accuracy:g}, priority {spec.priority}"
    return Words(f"sink: {spec.sink.describe()}", (("mode", quality),))


def _group(keys: Sequence[tuple[str, Expr]]) -> str:
    return f"group by {_named(keys)}" if keys else "group all rows"


def _named(columns: Sequence[tuple[str, Expr]]) -> str:
    texts = ((name, expression_text(expression)) for name, expression in columns)
    return ", ".join(text if text == name else f"{name} = {text}" for name, text in texts)


def _window(windowing: Windowing | None, emission: Emission) -> tuple[tuple[str, str], ...]:
    if windowing is not None:
        return (("window", f"{_windowing(windowing)}, emits {_emission(emission)}"),)
    return (("emits", _emission(emission)),)


def _windowing(windowing: Windowing) -> str:
    parts = [str(windowing.window)]
    if windowing.lateness_us:
        parts.append(f"{format_microseconds(windowing.lateness_us)} of lateness")
    if windowing.clock != "event":
        parts.append(f"{windowing.clock} time")
    return ", ".join(parts)


def _emission(emission: Emission) -> str:
    if emission.mode == "final":
        return "final results"
    if emission.interval_us is None:
        return "updates every emit_interval"
    if not emission.interval_us:
        return "updates after every batch"
    return f"updates every {format_microseconds(emission.interval_us)}"


def _letters(target: LetterTarget | None) -> tuple[tuple[str, str], ...]:
    return () if target is None else (("dead letters", target.describe()),)


def _on_error(policy: str) -> tuple[tuple[str, str], ...]:
    return () if policy == "dead_letter" else (("on error", policy),)


def _function(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")


def _without_exponent(match: re.Match[str]) -> str:
    return match[1] or match[2]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
