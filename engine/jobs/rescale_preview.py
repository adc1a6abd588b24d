"""What a change of parallelism would do to a running job: what moves, from where to where, and about how long. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.moves.held_state import HeldState, planned_bytes
from penstock.engine.moves.live_changes import LiveChange, live_change
from penstock.engine.moves.spreading import shares, spread
from penstock.engine.moves.vacating import Targets
from penstock.engine.plan.planner import lies_by_key
from penstock.engine.plan.recut import instances_by_name, recut
from penstock.engine.restore.key_group_owners import Noted, owner_tables
from penstock.model.execution_graph import ExecutionGraph, instance_name

IN_ONE_PROCESS = "all of it is in one process"


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """So many key groups would go from one instance to another, with about so many bytes of state."""

    giver: str
    taker: str
    key_groups: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class RescalePreview:
    """What a change of parallelism would do: the instances of each operator with others then, before and after.

    Of all ``key_groups`` of what changes ``key_groups_moved`` would change instances. ``begins_anew`` says why the
    job cannot come to it while it runs. It would run on during a checkpoint then, of which the last took
    ``checkpoint_ms`` (null: there is none), and stand still for as long as its instances take to begin with their
    state, of which ``state_bytes`` are held now; the last such change stood still for ``stopped_ms`` (null: there was
    none). Null: it can. Then these are the ``moves``, of about ``planned_bytes`` together, which take about
    ``planned_ms`` by what the last move took (null: nothing has moved that would tell); and partitions of ``sources``
    are dealt out anew, nobody knows how many before.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    key_groups_moved: int
    key_groups: int
    state_bytes: int
    checkpoint_ms: float | None
    begins_anew: str | None = None
    stopped_ms: float | None = None
    moves: tuple[PlannedMove, ...] = ()
    planned_bytes: int = 0
    planned_ms: float | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RescaleTimes:
    """What tells of a job how long a restart takes; the fields are those of `RescalePreview`."""

    state_bytes: int
    checkpoint_ms: float | None = None
    stopped_ms: float | None = None


def preview(
    plan: JobPlan,
    parallelism: Mapping[str, int],
    times: RescaleTimes,
    held: HeldState | None,
    noted: Mapping[str, Noted],
) -> RescalePreview:
    """Return what other numbers of instances would change of a job, none named: instances at all task managers.

    ``held`` is what instances have on task managers (None: all are in one process), ``noted`` the owners that a
    checkpoint told of as they began.

    Raises:
        OptionError: they cannot be.
    """
    graph, key_groups = plan.graph, plan.loop.key_groups
    after = recut(graph, parallelism, key_groups) if parallelism else graph
    change = IN_ONE_PROCESS if held is None else _live(graph, after, held, key_groups)
    running, owners = graph, owner_tables(graph, key_groups, noted)
    if held is not None:
        # What is about to begin has no owners yet.
        running, owners = held.graph, owners | dict(held.owners)
    now = {
        running.node(operator).name: Noted(owners[task.id], task.parallelism)
        for task in running.tasks
        for operator in task.operators
        if lies_by_key(running, running.node(operator))
    }
    moved, groups = moved_groups(after, key_groups, now)
    reason = change if isinstance(change, str) else None
    if not isinstance(change, str):
        after = change[0].anew
    found = RescalePreview(
        *changed(graph, after), moved, groups, times.state_bytes, times.checkpoint_ms, reason, times.stopped_ms
    )
    if held is None or isinstance(change, str):
        return found
    return _with_moves(found, *change, replace(held, owners=owners))


def moved_groups(graph: ExecutionGraph, key_groups: int, noted: Mapping[str, Noted]) -> tuple[int, int]:
    """Return how many key groups of operators have other owners in a plan than they had, and of how many."""
    tables = owner_tables(graph, key_groups, noted)
    task_of = {graph.node(operator).name: task for task in graph.tasks for operator in task.operators}
    moved = groups = 0
    keyed = {node.name for node in graph.graph.operators.values() if lies_by_key(graph, node)}
    for name in sorted(noted.keys() & keyed):
        task, before = task_of[name], noted[name]
        if len(tables[task.id]) != len(before.owners):
            continue
        moved += int((tables[task.id] != before.owners).sum())
        groups += len(before.owners)
    return moved, groups


def changed(was: ExecutionGraph, will_be: ExecutionGraph) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the instances of each operator that has others in a plan than it had, before and after."""
    before, after = instances_by_name(was), instances_by_name(will_be)
    names = [name for name, count in after.items() if before[name] != count]
    return {name: before[name] for name in names}, {name: after[name] for name in names}


def _live(
    graph: ExecutionGraph, after: ExecutionGraph, held: HeldState, key_groups: int
) -> tuple[LiveChange, Targets] | str:
    """Return how what runs comes to a plan, and where new instances go, or why it cannot.

    The plan of the job has no gaps, that which runs may. If it stays as it is, task managers that have no instances get
    some.
    """
    if after is graph:
        wider = None if held.ended else spread(held.graph, held.places, held.managers, key_groups, held.used)
        return "nothing can come beside the instances that run" if wider is None else wider
    change = live_change(graph, after)
    if isinstance(change, LiveChange):
        change = "instances of it have ended" if held.ended else live_change(held.graph, change.anew, held.used)
    return change if isinstance(change, str) else (change, {})


def _with_moves(found: RescalePreview, change: LiveChange, targets: Targets, held: HeldState) -> RescalePreview:
    moves, planned, moved, of = [], 0.0, 0, 0
    places = {**held.places, **targets}
    weights = {task.id: shares(change.after, task, places) for task in change.after.tasks} if targets else None
    for lead, groups in change.moves(held.owners, weights):
        name = next(held.graph.name(task) for task in held.graph.tasks if task.id == lead)
        counts, sizes = Counter((giver, taker) for _, giver, taker in groups), planned_bytes(held, lead, groups)
        moves += [
            PlannedMove(instance_name(name, giver), instance_name(name, taker), count, int(sizes[giver, taker]))
            for (giver, taker), count in sorted(counts.items())
        ]
        planned += sum(sizes.values())
        moved += len(groups)
        of += len(held.owners[lead]) if groups else 0
    return replace(
        found,
        key_groups_moved=moved,
        key_groups=of,
        moves=tuple(moves),
        planned_bytes=int(planned),
        planned_ms=held.planned_ms(planned),
        sources=tuple(change.wide.node(task.head).name for task in change.sources()),
    )
