"""From the sizes of a plan, by task, to an order for the operators of a running job. Called by `scale_control`."""

import numpy as np

from penstock.engine.control.key_group_loads import loads_of
from penstock.engine.control.part_reading import edges_between_tasks
from penstock.engine.control.scale_actuator import SizeOrder
from penstock.engine.moves.move_orders import GroupsOrder
from penstock.engine.plan.free_edges import Routes
from penstock.engine.plan.planner import lies_by_key
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.memory_levels import LEAST_BYTES, bytes_at
from penstock.model.plan import RescalePlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot


def order_of(plan: RescalePlan, graph: ExecutionGraph, snapshot: ClusterSnapshot) -> SizeOrder:
    """Return what is to change of a job's operators, which was decided on a snapshot of it.

    Operators of one task have equal parts of its memory; what has no state by keys has none that could change.
    """
    tasks = graph.tasks
    parallelism: dict[str, int] = {}
    memory: tuple[dict[str, int], dict[str, int]] = {}, {}
    for size in plan.tasks:
        task = tasks[size.task]
        if size.parallelism != task.parallelism:
            parallelism |= {graph.node(operator).name: size.parallelism for operator in task.operators}
        wanted, now_bytes = wanted_bytes(size, snapshot), state_budget(snapshot, size.task)
        keyed = [node.name for operator in task.operators if lies_by_key(graph, node := graph.node(operator))]
        if wanted is not None and keyed and wanted != now_bytes:
            rises = wanted > now_bytes
            memory[rises].update(dict.fromkeys(keyed, max(wanted // len(keyed), LEAST_BYTES)))
    after = {row: task.parallelism for row, task in enumerate(tasks)}
    after |= {size.task: size.parallelism for size in plan.tasks}
    falls, rises_to = memory
    loads = loads_of(parallelism, graph, snapshot)
    return SizeOrder(
        graph,
        parallelism,
        max(after.values()),
        falls,
        rises_to,
        *_handed_out(plan, graph),
        loads=loads,
        needs=min(sum(need.cores for need in plan.cores), float(sum(after.values()))),
        spreads=not parallelism and any(need.spreads for need in plan.cores),
        grows=any(after[row] > task.parallelism for row, task in enumerate(tasks)),
    )


def _handed_out(plan: RescalePlan, graph: ExecutionGraph) -> tuple[tuple[GroupsOrder, ...], Routes]:
    """Return the key groups of each task that are to have other owners, and the shares of rows that come freely."""
    groups: dict[str, list[tuple[int, int]]] = {}
    for move in plan.buckets:
        task = graph.tasks[move.task]
        groups.setdefault(graph.name(task), []).append((move.bucket, task.numbers[move.number]))
    edges = edges_between_tasks(graph)
    shares = {graph.node(edges[route.edge].consumer).name: route.shares for route in plan.routes}
    return tuple(GroupsOrder(name, tuple(own)) for name, own in groups.items()), shares


def memory_after(plan: RescalePlan, graph: ExecutionGraph, snapshot: ClusterSnapshot) -> float:
    """Return the bytes of all state once tasks have their sizes, which were decided on a snapshot of the job."""
    count, sized = {row: task.parallelism for row, task in enumerate(graph.tasks)}, {it.task: it for it in plan.tasks}
    total = 0.0
    for row in np.flatnonzero(snapshot.tasks.is_stateful).tolist():
        budget = state_budget(snapshot, row)
        if (size := sized.get(row)) is not None:
            wanted, task = wanted_bytes(size, snapshot), graph.tasks[row]
            keyed = sum(lies_by_key(graph, graph.node(operator)) for operator in task.operators)
            budget = budget if wanted is None or not keyed else max(wanted, LEAST_BYTES * keyed)
            count[row] = size.parallelism
        total += count[row] * budget
    return total


def instance_loads(plan: RescalePlan, graph: ExecutionGraph, snapshot: ClusterSnapshot) -> dict[str, float]:
    """Return the part of a core's time that each instance of a task takes once a plan is carried out, by task.

    It is that of what is worked off now. Nobody is named whose time was not measured.
    """
    instances, tasks = snapshot.instances, len(graph.tasks)
    if instances.busy_ns is None:
        return {}
    busy = np.bincount(instances.task, instances.busy_ns, tasks) / (snapshot.window_s * 1e9)
    after = {size.task: size.parallelism for size in plan.tasks}
    each = {row: float(busy[row]) / after.get(row, task.parallelism) for row, task in enumerate(graph.tasks)}
    return {graph.name(graph.tasks[row]): load for row, load in each.items() if np.isfinite(load)}


def wanted_bytes(size: TaskSize, snapshot: ClusterSnapshot) -> int | None:
    """Return the memory of each instance that a size asks for, None: as it is."""
    if size.managed_bytes is not None or size.memory_level is None:
        return size.managed_bytes
    return bytes_at(size.memory_level, int(snapshot.tasks.memory_level[size.task]), state_budget(snapshot, size.task))


def state_budget(snapshot: ClusterSnapshot, task: int) -> float:
    """Return the memory of an instance of a task; infinite: it has no bound."""
    managed = snapshot.instances.managed_bytes
    of = snapshot.instances.task == task
    if managed is None or not of.any() or np.isnan(managed[of]).any():
        return np.inf
    return float(managed[of].max())
