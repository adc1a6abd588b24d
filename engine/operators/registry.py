"""The kinds of operators: the one line that a new one needs. Everything else asks its descriptor."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from penstock.engine.core.contract import Operator
from penstock.engine.operators.descriptor import OperatorDescriptor
from penstock.model.errors import BugError
from penstock.model.job_graph import OperatorSpec
from penstock.model.schema import StreamSchema

OPERATORS = (
    "penstock.engine.operators.aggregates.aggregate_descriptor:AGGREGATE",
    "penstock.engine.operators.aggregates.reduce:REDUCE",
    "penstock.engine.operators.branch:BRANCH",
    "penstock.engine.operators.event_time_column:EVENT_TIME",
    "penstock.engine.operators.functions.async_function:ASYNC_FUNCTION",
    "penstock.engine.operators.functions.batch_function:BATCH_FUNCTION",
    "penstock.engine.operators.functions.row_function:ROW_FUNCTION",
    "penstock.engine.operators.joins.asof_join:ASOF_JOIN",
    "penstock.engine.operators.joins.interval_join:INTERVAL_JOIN",
    "penstock.engine.operators.joins.join_descriptor:JOIN",
    "penstock.engine.operators.joins.lookup:LOOKUP",
    "penstock.engine.operators.over.descriptor:OVER",
    "penstock.engine.operators.process.descriptor:PROCESS",
    "penstock.engine.operators.ranking.first:FIRST",
    "penstock.engine.operators.ranking.top:TOP",
    "penstock.engine.operators.select:FILTER",
    "penstock.engine.operators.select:PROJECT",
    "penstock.engine.operators.select:SPLIT",
    "penstock.engine.operators.sink:SINK",
    "penstock.engine.operators.source:SOURCE",
    "penstock.engine.operators.union:UNION",
)
"""``module:descriptor``, sorted."""


def descriptor_of(spec: OperatorSpec) -> OperatorDescriptor[Any]:
    """Return what the engine knows of a kind of operator.

    Raises:
        BugError: it has no line in `OPERATORS`.
    """
    descriptor = descriptors().get(type(spec))
    if descriptor is None:
        raise BugError(f"no operator is described for {type(spec).__name__}; add its descriptor to OPERATORS")
    return descriptor


def make_operator(spec: OperatorSpec, inputs: Sequence[StreamSchema], name: str) -> Operator:
    """Return a fresh operator; see `OperatorDescriptor.make`."""
    return descriptor_of(spec).make(spec, inputs, name)


@cache
def descriptors() -> Mapping[type[OperatorSpec], OperatorDescriptor[Any]]:
    """Return all descriptors by the class of the specs that they describe."""
    return by_spec(OPERATORS)


def by_spec(lines: Iterable[str]) -> Mapping[type[OperatorSpec], Any]:
    """Return the objects that ``module:name`` lines lead to, by the class of specs that each has as its ``spec``.

    Raises:
        BugError: two are for the same.
    """
    items: dict[type[OperatorSpec], Any] = {}
    for line in lines:
        module, _, name = line.partition(":")
        item = getattr(import_module(module), name)
        if item.spec in items:
            raise BugError(f"{line} is another line for {item.spec.__name__}; leave one of them out")
        items[item.spec] = item
    return items
