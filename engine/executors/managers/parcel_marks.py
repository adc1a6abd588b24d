"""Marks in the bytes of a plan: whose operator they make, so that it can be named if that cannot be done."""

import threading
from dataclasses import dataclass
from typing import Any

from penstock.model.job_graph import OperatorNode


@dataclass(slots=True)
class _Mark(threading.local):
    """The operator that a thread makes again, as people know it; empty: none."""

    phrase: str = ""


_mark = _Mark()


def marked(node: OperatorNode) -> tuple[Any, ...]:
    """Return how pickle is to write an operator: its name goes ahead of what it consists of."""
    return (
        _begin,
        (f"{node.name!r} ({node.where})" if node.where else repr(node.name),),
        dict(vars(node)),
        None,
        None,
        _end,
    )


def take_mark() -> str:
    """Return the name and place of the operator that this thread could not make again, once; empty: it was none."""
    phrase, _mark.phrase = _mark.phrase, ""
    return phrase


def _begin(phrase: str) -> OperatorNode:
    _mark.phrase = phrase
    return object.__new__(OperatorNode)


def _end(node: OperatorNode, values: dict[str, Any]) -> None:
    vars(node).update(values)
    _mark.phrase = ""
