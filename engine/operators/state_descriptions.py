"""The words of descriptors for the meaning of state: kept in manifests, so that these words never change.

Two pipelines that keep the same state get the same words, in every process: sets inside of expressions are sorted.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.engine.accumulators.aggregation import Aggregation
from penstock.model.aggregates import AggregateCall
from penstock.model.durations import format_microseconds
from penstock.model.expression_trees import sql_text, unwrapped, with_sorted_members
from penstock.model.expressions import Expr, Ordering, column_name
from penstock.model.job_graph import Keys
from penstock.model.schema import StreamSchema
from penstock.model.windows import Hopping, Tumbling, Windowing
from penstock.state.checkpoints.operator_meaning import AggregateMeaning

_WITHOUT_STATE_OF = ("q",)
"""Options of aggregates that say what is read from the state, and nothing about the state."""


def changelog_words(schema: StreamSchema) -> str:
    """Say of what kind an input is."""
    return "an updating stream" if schema.changelog else "an append-only stream"


def key_traits(keys: Keys, schema: StreamSchema) -> dict[str, str]:
    """Return the traits of state that lies by keys of one input."""
    return {"key": key_words(key for _, key in keys), "input": changelog_words(schema)}


def window_traits(windowing: Windowing | None) -> dict[str, str]:
    """Return the traits of state that lies by windows."""
    if windowing is None:
        return {"window": "none"}
    window = windowing.window
    offset_us = window.offset_us if isinstance(window, Tumbling | Hopping) else 0
    return {
        "window": f"{window}, offset {format_microseconds(offset_us)}" if offset_us else str(window),
        "allowed lateness": duration_words(windowing.lateness_us or None),
        "clock": f"{windowing.clock} time",
        "emission": "final results" if windowing.emission.mode == "final" else "updates",
    }


def aggregate_meanings(
    aggregation: Aggregation, named: Sequence[tuple[str, AggregateCall]], table: str
) -> tuple[AggregateMeaning, ...]:
    """Return what accumulators in a table stand for."""
    estimates = aggregation.estimates
    blocks = [None] * len(named) if estimates is None else estimates.blocks
    return tuple(
        AggregateMeaning(
            name=name,
            means=aggregate_words(call),
            table=table,
            place=owner,
            weighted=None if block is None else (block.start, block.end),
        )
        for (name, call), owner, block in zip(named, aggregation.owners, blocks, strict=True)
    )


def aggregate_words(call: AggregateCall) -> str:
    """Say what an aggregate keeps."""
    arguments = [expression_words(item) for item in call.inputs]
    arguments += [f"{name}={value!r}" for name, value in sorted(call.options.items()) if name not in _WITHOUT_STATE_OF]
    if call.user is None:
        text = f"{call.function}({', '.join(arguments)})"
    else:
        state = ", ".join(f"{name} {dtype}" for name, dtype in sorted(_dtypes(call.user.state).items()))
        text = f"aggregate({', '.join(arguments)}) with state {state}"
    return text if call.where is None else f"{text} where {expression_words(call.where)}"


def key_names(keys: Keys) -> tuple[str, ...]:
    """Return what the columns of keys are called."""
    return tuple(name for name, _ in keys)


def key_words(keys: Iterable[Expr]) -> str:
    """Write keys."""
    return ", ".join(map(expression_words, keys)) or "none"


def order_words(order: Sequence[Ordering]) -> str:
    """Write an order."""
    return ", ".join(expression_words(item.expression) + (" desc" if item.descending else "") for item in order)


def expression_words(expression: Expr) -> str:
    """Write an expression as SQL."""
    # A set of strings has another order in every process.
    return column_name(expression) or sql_text(with_sorted_members(unwrapped(expression.tree, keep_alias=False)))


def duration_words(value_us: int | None) -> str:
    """Write a duration."""
    return "none" if value_us is None else format_microseconds(value_us)


def signed_words(value_us: int) -> str:
    """Write a duration that may be negative."""
    return f"-{format_microseconds(-value_us)}" if value_us < 0 else format_microseconds(value_us)


def _dtypes(state: Mapping[str, Any]) -> dict[str, str]:
    return {name: getattr(kind, "__name__", str(kind)) for name, kind in state.items()}
