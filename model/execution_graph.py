"""The physical plan: chains of operators as tasks, their instances, and the channels between tasks."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from penstock.model.expressions import Expr
from penstock.model.ids import OperatorId, TaskId
from penstock.model.job_graph import JobGraph, OperatorNode


@dataclass(frozen=True, slots=True)
class Edge:
    """One input of one operator as the planner decided it.

    ``chained`` edges are calls inside a task; the others become channels between all pairs of instances the exchange
    needs. ``keys`` are set for hash exchanges; edges are told apart without them.
    """

    producer: OperatorId
    output: str
    consumer: OperatorId
    port: int
    exchange: str
    chained: bool
    keys: tuple[Expr, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Task:
    """A chain of operators that run together in each of ``parallelism`` instances, producers first.

    ``gaps`` are the numbers below the greatest that none of them has: instances have left there since the tasks began.
    """

    id: TaskId
    operators: tuple[OperatorId, ...]
    parallelism: int
    gaps: tuple[int, ...] = ()

    @property
    def head(self) -> OperatorId:
        """The operator that receives the task's input."""
        return self.operators[0]

    @property
    def first_free(self) -> int:
        """One more than the greatest number of an instance."""
        return self.parallelism + len(self.gaps)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of its instances."""
        return tuple(number for number in range(self.first_free) if number not in self.gaps)

    def numbered(self, numbers: Collection[int]) -> "Task":
        """Return the task with instances of these numbers."""
        gaps = tuple(number for number in range(max(numbers)) if number not in numbers)
        return replace(self, parallelism=len(numbers), gaps=gaps)


def instance_name(task: str, index: int) -> str:
    """Return task and index, for people; unique in a job."""
    return f"{task}[{index}]"


@dataclass(frozen=True)
class ExecutionGraph:
    """The optimised job graph cut into tasks.

    Those of one that is ``apart`` may be in several processes: what stays in the caller's is tasks of its own, and what
    needs rows by keys, or all of them, has an exchange before it even where it is single.
    """

    graph: JobGraph
    tasks: tuple[Task, ...]
    edges: tuple[Edge, ...]
    apart: bool = False

    def node(self, operator: OperatorId) -> OperatorNode:
        """Return an operator of the graph."""
        return self.graph[operator]

    def task_of(self, operator: OperatorId) -> Task:
        """Return the task that runs an operator."""
        return next(task for task in self.tasks if operator in task.operators)

    def name(self, task: Task) -> str:
        """Name a task by its operators."""
        return " -> ".join(self.graph[operator].name for operator in task.operators)

    def instances(self, task: Task) -> tuple[str, ...]:
        """Name the instances of a task, in the order of their numbers."""
        name = self.name(task)
        return tuple(instance_name(name, number) for number in task.numbers)

    def outgoing(self, operator: OperatorId) -> Sequence[Edge]:
        """Return the edges that leave an operator."""
        return [edge for edge in self.edges if edge.producer == operator]

    def incoming(self, operator: OperatorId) -> Sequence[Edge]:
        """Return the edges that reach an operator, by port."""
        return [edge for edge in self.edges if edge.consumer == operator]
