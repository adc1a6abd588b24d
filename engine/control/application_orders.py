"""From the size of a whole job to an order for its operators and task managers. Called by `whole_job`."""

from penstock.engine.control.key_group_loads import loads_of
from penstock.engine.control.scale_actuator import SizeOrder
from penstock.engine.control.size_orders import state_budget
from penstock.engine.plan.planner import in_caller, lies_by_key
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.memory_levels import LEAST_BYTES
from penstock.model.plan import ApplicationSize
from penstock.model.snapshot import ClusterSnapshot


def wanted_memory(size: ApplicationSize) -> float | None:
    """Return the memory of all state that a size asks for, None: as it is. Heap and memory are one."""
    return size.memory_bytes if size.heap_bytes is None else size.heap_bytes


def order_of_application(size: ApplicationSize, graph: ExecutionGraph, snapshot: ClusterSnapshot) -> SizeOrder:
    """Return what is to change of a job so that it has this size, which was decided on a snapshot of it.

    A thread is a task manager with an instance of every operator that can have another number. Memory is shared out as
    it was; other numbers of instances leave all of it together as it is.
    """
    applications, row = snapshot.applications, size.application
    assert applications.memory_bytes is not None and applications.threads is not None
    memory = wanted_memory(size)
    factor = 1.0 if memory is None else memory / float(applications.memory_bytes[row])
    parallelism: dict[str, int] = {}
    falls: dict[str, int] = {}
    rises: dict[str, int] = {}
    widest = 1
    for number, task in enumerate(graph.tasks):
        before = task.parallelism
        after = before
        if size.threads is not None and can_widen(graph, snapshot, number):
            after = min(size.threads, _most(snapshot, number))
        widest = max(widest, after)
        names = [graph.node(operator).name for operator in task.operators]
        if after != before:
            parallelism |= dict.fromkeys(names, after)
        keyed = [graph.node(operator).name for operator in task.operators if lies_by_key(graph, graph.node(operator))]
        budget = state_budget(snapshot, number)
        wanted = budget * factor * before / after
        if keyed and abs(wanted - budget) >= 1:
            # What falls because there are more instances does so once these have their part of the state.
            change = falls if wanted < budget and after == before else rises
            change |= dict.fromkeys(keyed, max(int(wanted / len(keyed)), LEAST_BYTES))
    loads = loads_of(parallelism, graph, snapshot)
    return SizeOrder(graph, parallelism, widest, falls, rises, cores=size.cores, managers=size.threads, loads=loads)


def can_widen(graph: ExecutionGraph, snapshot: ClusterSnapshot, number: int) -> bool:
    """Return whether a task has an instance in each task manager: not what only reads, nor what is the caller's."""
    task = graph.tasks[number]
    only_reads = bool(snapshot.tasks.is_source[number]) and len(task.operators) == 1 and len(graph.tasks) > 1
    return not only_reads and not any(in_caller(graph.node(operator)) for operator in task.operators)


def _most(snapshot: ClusterSnapshot, number: int) -> int:
    """Return how many instances a task can have: of one that reads as many as there are partitions."""
    tasks, partitions = snapshot.tasks, snapshot.instances.task[snapshot.partitions.instance]
    own = int((partitions == number).sum())
    return own if bool(tasks.is_source[number]) and own else int(tasks.key_groups[number])
