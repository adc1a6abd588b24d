"""Marks in the bytes of a plan: whose operator they make, so that it can be named if that cannot be done."""

import threading
from dataclasses import dataclass, fields
from typing import Any

from penstock.model.job_graph import OperatorNode


@dataclass(slots=True)
class _Mark(threading.local):
    """The operator that a thread makes again, as people know it; empty: none."""

    phrase: str = ""


_mark = _Mark()


def marked(node: OperatorNode) -> tuple[Any, ...]:
    """Return how pickle is to write an operator: its name goes ahead of what it consists of."""
    phrase = f"{node.name!r} ({node.where})" if node.where else repr(node.name)
    return _made, (_Beginning(phrase), *(getattr(node, item.name) for item in fields(node)))


def take_mark() -> str:
    """Return the name and place of the operator that this thread could not make again, once; empty: it was none."""
    phrase, _mark.phrase = _mark.phrase, ""
    return phrase


class _Beginning:
    """What comes first of an operator: it makes the mark as it is read."""

    def __init__(self, phrase: str) -> None:
        self._phrase = phrase

    def __reduce__(self) -> tuple[Any, ...]:
        return _begin, (self._phrase,)


def _begin(phrase: str) -> None:
    _mark.phrase = phrase


def _made(beginning: None, *values: Any) -> OperatorNode:
    _mark.phrase = ""
    return OperatorNode(*values)
