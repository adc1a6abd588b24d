"""What operators need of the machines that run them, beyond cores: which task managers are to have it. Pure.

Task managers have ranks, numbers from 0 on. Instance i of a task that needs something runs at rank i modulo their
count, and nowhere else; what the task manager of a rank is to have follows from that.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from penstock.engine.plan.planner import in_caller
from penstock.model.errors import PlanError
from penstock.model.execution_graph import ExecutionGraph, Task
from penstock.model.ids import TaskId

Resources = Mapping[str, float]
"""How much of each resource, by the names that Ray has for them."""


@dataclass(frozen=True, slots=True)
class RankNeeds:
    """What the task manager of each rank is to have, rank 0 first, and for which operators, in words."""

    ranks: Sequence[Resources] = ()
    operators: str = ""


def task_resources(graph: ExecutionGraph, task: Task) -> Resources:
    """Return what an instance of a task needs: all its operators do together; {}: nothing but a core."""
    needed: dict[str, float] = {}
    for operator in task.operators:
        for name, amount in graph.node(operator).resources:
            needed[name] = needed.get(name, 0.0) + amount
    return needed


def instance_ranks(graph: ExecutionGraph, tasks: Collection[TaskId], count: int) -> Mapping[str, int]:
    """Return the rank of each instance of these tasks that needs something, of so many ranks."""
    return {
        name: number % count
        for task in graph.tasks
        if task.id in tasks and task_resources(graph, task)
        for number, name in enumerate(graph.instances(task))
    }


def rank_needs(graph: ExecutionGraph, count: int) -> RankNeeds:
    """Return what the task managers of so many ranks are to have, those that need something; above 1 it is whole."""
    ranks: list[dict[str, float]] = [{} for _ in range(count)]
    for task in graph.tasks:
        for name, amount in task_resources(graph, task).items():
            for number in range(task.parallelism):
                rank = ranks[number % count]
                rank[name] = rank.get(name, 0.0) + amount
    # They are the first: every task begins to count at rank 0.
    needs = [{name: amount if amount <= 1 else float(ceil(amount)) for name, amount in rank.items()} for rank in ranks]
    return RankNeeds([need for need in needs if need], needy_operators(graph))


def needy_operators(graph: ExecutionGraph) -> str:
    """Name the operators that need something, with their lines; empty if there is none."""
    return ", ".join(f"{node.name!r} at {node.where}" for node in graph.graph.operators.values() if node.resources)


def resources_phrase(resources: Collection[tuple[str, float]]) -> str:
    """Return resources in words."""
    return ", ".join(f"{amount:g} {name}" for name, amount in resources)


def refuse_resources(graph: ExecutionGraph, executor: str) -> None:
    """Refuse operators that need what no task manager of an executor can have.

    Raises:
        PlanError: naming the first.
    """
    for node in graph.graph.operators.values():
        if node.resources:
            raise PlanError(
                f"{node.name!r} at {node.where} needs {resources_phrase(node.resources)} for each instance, which "
                f"executor={executor!r} cannot give: run it on a Ray cluster (executor='ray'), or leave out resources()"
            )


def refuse_in_caller(graph: ExecutionGraph) -> None:
    """Refuse operators that need something, and stay in the process that started the job.

    Raises:
        PlanError: naming the first.
    """
    for task in graph.tasks:
        nodes = [graph.node(operator) for operator in task.operators]
        needy = next((node for node in nodes if node.resources), None)
        if needy is not None and any(map(in_caller, nodes)):
            raise PlanError(
                f"{needy.name!r} at {needy.where} stays in the process that starts the job, where it can be given "
                "nothing: leave out its resources()"
            )
