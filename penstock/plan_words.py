"""Says in words what operators and edges of a plan do, for the tree, Mermaid, SVG and JSON."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.model.aggregates import AggregateCall
from penstock.model.durations import format_microseconds
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.expression_trees import sql_text
from penstock.model.expressions import Expr, column_name
from penstock.model.ids import OperatorId
from penstock.model.job_graph import (
    MAIN,
    AggregateSpec,
    BatchFunctionSpec,
    FilterSpec,
    JoinSpec,
    OperatorNode,
    ProjectSpec,
    ReduceSpec,
    RowFunctionSpec,
    SinkSpec,
    SourceSpec,
    SplitSpec,
    UnionSpec,
)
from penstock.model.windows import Emission, Windowing

GENERATED = "*"
"""Follows the name of an operator that the user did not name."""


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
        case JoinSpec():
            return _join(spec)
        case SinkSpec():
            return _sink(spec)


def display_name(node: OperatorNode) -> str:
    """Return an operator's name, with `GENERATED` behind it if nobody chose it."""
    return node.name if node.named else node.name + GENERATED


def edge_text(graph: ExecutionGraph, edge: Edge) -> str:
    """Name an edge's exchange, the side output it leaves, and the side of a join it reaches."""
    exchange = edge.exchange
    if exchange == "hash":
        exchange = f"hash({', '.join(expression_text(key) for key in edge.keys)})"
    text = exchange if edge.output == MAIN else f"{edge.output}: {exchange}"
    if isinstance(graph.node(edge.consumer).spec, JoinSpec):
        text += " (right)" if edge.port else " (left)"
    return text


def task_text(task: Task) -> str:
    """Name a task with its parallelism."""
    return f"task {task.id} ×{task.parallelism}"


def legend(graph: ExecutionGraph) -> str:
    """Explain `GENERATED`, if a name of the plan is marked so."""
    if all(node.named for node in graph.graph.operators.values()):
        return ""
    return f'{GENERATED} generated name; .name("...") gives the operator a stable one'


def summary(graph: ExecutionGraph) -> str:
    """Count tasks and instances."""
    instances = sum(task.parallelism for task in graph.tasks)
    return f"{_count(len(graph.tasks), 'task')}, {_count(instances, 'instance')}"


def chain(graph: ExecutionGraph, task: Task) -> Iterator[tuple[OperatorNode, int]]:
    """Yield a task's operators as rows pass them, each with the number of branchings above it."""
    pending: list[tuple[OperatorId, int]] = [(task.head, 0)]
    while pending:
        operator, depth = pending.pop()
        yield graph.node(operator), depth
        following = [edge.consumer for edge in graph.outgoing(operator) if edge.chained]
        deeper = depth + (len(following) > 1)
        pending.extend((consumer, deeper) for consumer in reversed(following))


def plan_data(graph: ExecutionGraph) -> dict[str, Any]:
    """Return the plan as plain data, for JSON."""
    return {
        "tasks": [
            {
                "task": int(task.id),
                "parallelism": task.parallelism,
                "operators": [_operator_data(node) for node, _ in chain(graph, task)],
            }
            for task in graph.tasks
        ],
        "edges": [
            {
                "from": graph.node(edge.producer).name,
                "output": edge.output,
                "to": graph.node(edge.consumer).name,
                "input": edge.port,
                "exchange": edge.exchange,
                "keys": [expression_text(key) for key in edge.keys],
                "chained": edge.chained,
            }
            for edge in graph.edges
        ],
    }


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
        details.append(("event time", f"{schema.time.name}, watermark {delay} behind"))
    return Words(f"read {spec.source.describe()}", (*details, *_on_error(spec.on_error)))


def _join(spec: JoinSpec) -> Words:
    sides = ([expression_text(key) for key in keys] for keys in (spec.left_keys, spec.right_keys))
    pairs = zip(*sides, strict=True)
    keys = ", ".join(left if left == right else f"{left} = {right}" for left, right in pairs)
    window = (
        "window",
        "none: both sides are kept" if spec.windowing is None else _windowing(spec.windowing),
    )
    return Words(f"join on {keys}", (window, ("columns", ", ".join(name for name, _, _ in spec.output))))


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
    if not emission.interval_us:
        return "updates after every batch"
    return f"updates every {format_microseconds(emission.interval_us)}"


def _on_error(policy: str) -> tuple[tuple[str, str], ...]:
    return () if policy == "dead_letter" else (("on error", policy),)


def _function(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")


def _operator_data(node: OperatorNode) -> dict[str, Any]:
    described = words(node)
    return {
        "name": node.name,
        "generated_name": not node.named,
        "kind": node.kind,
        "does": described.headline,
        "details": dict(described.details),
        "where": node.where,
    }


def _without_exponent(match: re.Match[str]) -> str:
    return match[1] or match[2]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
