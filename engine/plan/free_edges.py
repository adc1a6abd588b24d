"""Edges whose rows may go to any instance, and the shares that these are to get. Pure."""

import math
from collections.abc import Mapping, Sequence

from penstock.model.errors import OptionError
from penstock.model.execution_graph import Edge, ExecutionGraph

Routes = Mapping[str, tuple[float, ...]]
"""The shares of the instances of operators, by the names of these; together 1. In turns where nothing is said."""


def free_edges(graph: ExecutionGraph) -> tuple[Edge, ...]:
    """Return the edges on which rows go to any instance: not by key, not straight on, not to all."""
    return tuple(edge for edge in graph.edges if not edge.chained and edge.exchange == "rebalance")


def wanted_route(graph: ExecutionGraph, operator: str, shares: Sequence[float]) -> tuple[str, tuple[float, ...]]:
    """Return by its name the operator that rows come to in the task of another, and shares that add up to 1.

    Without ``shares`` there are none: rows are to go in turns.

    Raises:
        OptionError: the operator is not there, takes nothing that may go to any instance, or cannot have these shares.
    """
    node = next((node for node in graph.graph.operators.values() if node.name == operator), None)
    if node is None:
        known = ", ".join(sorted({repr(graph.node(edge.consumer).name) for edge in free_edges(graph)})) or "none"
        raise OptionError(f"there is no operator {operator!r}: rows may go to any instance of {known}.")
    task = graph.task_of(node.id)
    name = graph.node(task.head).name
    if not any(edge.consumer == task.head for edge in free_edges(graph)):
        raise OptionError(
            f"nothing comes to {operator!r} that may go to any of its instances: rows go by their keys, or straight "
            "on. rebalance() before it, or another parallelism, makes them free."
        )
    if not shares:
        return name, ()
    if len(shares) != task.parallelism:
        raise OptionError(f"{operator!r} has {task.parallelism} instances: give as many shares, not {len(shares)}.")
    if not all(math.isfinite(share) and share >= 0 for share in shares) or not 0 < sum(shares) < math.inf:
        raise OptionError(f"shares are numbers from 0 on, one of them greater than 0, not {list(shares)}.")
    return name, tuple(share / sum(shares) for share in shares)


def fitting(graph: ExecutionGraph, routes: Routes) -> Routes:
    """Return the routes that a plan still has: it may have been rescaled since they were asked for."""
    parallelism = {
        graph.node(edge.consumer).name: graph.task_of(edge.consumer).parallelism for edge in free_edges(graph)
    }
    return {name: shares for name, shares in routes.items() if parallelism.get(name) == len(shares)}
