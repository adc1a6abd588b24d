"""The plan of a running job with other numbers of instances. Pure; a job asks before it lets go of anything."""

from collections.abc import Mapping
from dataclasses import replace

from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.planner import cut, has_broadcast_input, lies_by_key
from penstock.model.errors import OptionError, PlanError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import JobGraph, OperatorNode


def recut(graph: ExecutionGraph, parallelism: Mapping[str, int], key_groups: int) -> ExecutionGraph:
    """Return a plan in which some operators, by their names, have so many instances, and the others as many as before.

    A stateless operator without parallelism of its own still has that of what feeds it, unless rows go to any of its
    instances.

    Raises:
        OptionError: there is no such operator, it cannot have so many instances, or nothing would change.
    """
    nodes = {node.name: node for node in graph.graph.operators.values()}
    for name, count in parallelism.items():
        if name not in nodes:
            raise OptionError(f"there is no operator {name!r}: the plan has {', '.join(map(repr, sorted(nodes)))}.")
        if count < 1:
            raise OptionError(f"{name!r} cannot have {count} instances: 1 is the least.")
        if nodes[name].resources:
            raise OptionError(f"{name!r} needs resources of its own: start the job with other instances of it.")
        if count > key_groups and descriptor_of(nodes[name].spec).keyed:
            raise OptionError(f"{name!r} cannot have {count} instances: the job has {key_groups} key groups.")
    operators = {key: _with_own(graph, node, parallelism) for key, node in graph.graph.operators.items()}
    try:
        after = cut(JobGraph(operators), 1, apart=graph.apart)
    except PlanError as error:
        raise OptionError(str(error)) from None
    before = instances_by_name(graph)
    for node in nodes.values():
        if lies_by_key(graph, node) and _placing(graph, node) != _placing(after, node):
            raise OptionError(
                f"the state of {node.name!r} lies by other keys then, as it goes by whether the operator before it has "
                "as many instances: change the two together, or start the job with other numbers of them."
            )
    for name, count in instances_by_name(after).items():
        if count != before[name] and has_broadcast_input(nodes[name]):
            raise OptionError(
                f"{name!r} meets a broadcast side, so its state does not lie by key, and it stays at {before[name]} "
                "instances."
            )
    if instances_by_name(after) == before:
        raise OptionError(f"nothing would change: {_sentence(before, parallelism)} already.")
    return after


def _placing(graph: ExecutionGraph, node: OperatorNode) -> list[list[int]]:
    """Return the expressions by which the rows of each input of an operator lie, as they are in memory."""
    return [[id(key) for key in edge.keys] for edge in graph.incoming(node.id)]


def instances_by_name(graph: ExecutionGraph) -> dict[str, int]:
    """Return how many instances each operator of a plan has, by its name."""
    return {graph.node(operator).name: task.parallelism for task in graph.tasks for operator in task.operators}


def _with_own(graph: ExecutionGraph, node: OperatorNode, parallelism: Mapping[str, int]) -> OperatorNode:
    if node.name in parallelism:
        return replace(node, parallelism=parallelism[node.name])
    task = graph.task_of(node.id)
    if node.parallelism is None and (
        descriptor_of(node.spec).keyed or len(node.inputs) != 1 or _is_fed_freely(graph, node)
    ):
        # It has what was said for the whole job, which a plan does not remember.
        return replace(node, parallelism=task.parallelism)
    return node


def _is_fed_freely(graph: ExecutionGraph, node: OperatorNode) -> bool:
    """Return whether rows come to any of its instances, so that it changes by itself, and not with what feeds it."""
    return all(edge.exchange == "rebalance" for edge in graph.incoming(node.id))


def _sentence(before: Mapping[str, int], parallelism: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} has {before[name]} instance{'s' if before[name] > 1 else ''}" for name in parallelism)
