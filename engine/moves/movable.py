"""What may move while it runs, and what with it. Pure; asked before a move begins."""

from collections.abc import Sequence

from penstock.engine.plan.planner import has_broadcast_input, lies_by_key
from penstock.engine.restore.key_group_owners import coupled_tasks
from penstock.model.execution_graph import ExecutionGraph, Task
from penstock.model.ids import OperatorId, TaskId
from penstock.model.job_graph import SinkSpec, SourceSpec
from penstock.model.key_groups import Owners


def together(graph: ExecutionGraph, task: TaskId) -> frozenset[TaskId]:
    """Return the tasks that move with one, itself included: they share its owners."""
    return next(tasks for tasks in coupled_tasks(graph) if task in tasks)


def takers(graph: ExecutionGraph, tasks: frozenset[TaskId]) -> list[Task]:
    """Return those of some tasks that a marker goes through: sources have no input by which it could come."""
    return [item for item in graph.tasks if item.id in tasks and not is_source(graph, item)]


def is_source(graph: ExecutionGraph, task: Task) -> bool:
    """Return whether a task reads from outside."""
    return isinstance(graph.node(task.head).spec, SourceSpec)


def marker_senders(graph: ExecutionGraph, tasks: frozenset[TaskId]) -> list[Task]:
    """Return the tasks that begin a move of others: their producers outside, and the sources among them."""
    feeding = {
        graph.task_of(edge.producer).id
        for edge in graph.edges
        if not edge.chained and graph.task_of(edge.consumer).id in tasks
    }
    return [item for item in graph.tasks if item.id in feeding and (item.id not in tasks or is_source(graph, item))]


def refusal(graph: ExecutionGraph, task: TaskId) -> str | None:
    """Return why key groups of a task cannot change their instances while it runs, None if they can."""
    if next(item.parallelism for item in graph.tasks if item.id == task) == 1:
        return "it has a single instance"
    return obstacle(graph, task)


def obstacle(graph: ExecutionGraph, task: TaskId) -> str | None:
    """Return why key groups of a task could not change their instances however many it had, None if they could."""
    tasks = together(graph, task)
    members = [item for item in graph.tasks if item.id in tasks]
    nodes = [graph.node(operator) for item in members for operator in item.operators]
    for node in nodes:
        if has_broadcast_input(node):
            return f"{node.name!r} meets a broadcast side, so its state does not lie by key"
    if not any(lies_by_key(graph, node) for node in nodes):
        return "nothing in it has state that lies by key"
    for operator in _behind(graph, [node.id for node in nodes]):
        spec = graph.node(operator).spec
        if isinstance(spec, SinkSpec) and spec.mode == "upsert":
            return (
                f"the upsert sink {graph.node(operator).name!r} is behind it: in one epoch, rows of one key would come "
                f"to it by two ways, and the older could win"
            )
    return None


def fault(owners: Owners, numbers: Sequence[int], groups: Sequence[tuple[int, int, int]]) -> str | None:
    """Return what is wrong with a wanted change of owners among instances of these numbers, None if nothing is."""
    left = owners.copy()
    for group, giver, taker in groups:
        if not 0 <= group < len(owners) or left[group] != giver:
            return f"key group {group} is not instance {giver}'s, or moves twice"
        if taker not in numbers or taker == giver:
            return f"key group {group} cannot go from instance {giver} to instance {taker} of {len(numbers)}"
        left[group] = taker
    return None if groups else "no key group moves"


def _behind(graph: ExecutionGraph, operators: Sequence[OperatorId]) -> list[OperatorId]:
    """Return operators and everything that their rows come to."""
    found = dict.fromkeys(operators)
    following = list(operators)
    while following:
        for edge in graph.outgoing(following.pop()):
            if edge.consumer not in found:
                found[edge.consumer] = None
                following.append(edge.consumer)
    return list(found)
