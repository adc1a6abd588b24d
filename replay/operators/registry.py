"""The forms for Spark: the one line that a new kind of operator needs here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from penstock.engine.operators.registry import by_spec
from penstock.model.errors import BugError
from penstock.model.job_graph import OperatorSpec
from penstock.replay.spark_form import SparkForm

FORMS = (
    "penstock.replay.operators.aggregates:AGGREGATE",
    "penstock.replay.operators.asof_join:ASOF_JOIN",
    "penstock.replay.operators.ends:BRANCH",
    "penstock.replay.operators.ends:SINK",
    "penstock.replay.operators.ends:SOURCE",
    "penstock.replay.operators.functions:ASYNC_FUNCTION",
    "penstock.replay.operators.functions:BATCH_FUNCTION",
    "penstock.replay.operators.functions:ROW_FUNCTION",
    "penstock.replay.operators.interval_join:INTERVAL_JOIN",
    "penstock.replay.operators.joins:JOIN",
    "penstock.replay.operators.lookup:LOOKUP",
    "penstock.replay.operators.over:OVER",
    "penstock.replay.operators.process:PROCESS",
    "penstock.replay.operators.ranking:FIRST",
    "penstock.replay.operators.ranking:TOP",
    "penstock.replay.operators.reduce:REDUCE",
    "penstock.replay.operators.rows:FILTER",
    "penstock.replay.operators.rows:PROJECT",
    "penstock.replay.operators.rows:SPLIT",
    "penstock.replay.operators.rows:UNION",
    "penstock.replay.operators.times:EVENT_TIME",
)
"""``module:form``, sorted."""


def form_of(spec: OperatorSpec) -> SparkForm[Any]:
    """Return the form of a kind of operator.

    Raises:
        BugError: it has no line in `FORMS`.
    """
    form = forms().get(type(spec))
    if form is None:
        raise BugError(
            f"nothing says how {type(spec).__name__} is replayed; add its form to FORMS, or a NoForm that says why not"
        )
    return form


@cache
def forms() -> Mapping[type[OperatorSpec], SparkForm[Any]]:
    """Return all forms by the class of the specs that they are for."""
    return by_spec(FORMS)
