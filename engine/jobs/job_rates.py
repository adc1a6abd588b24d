"""The keep rates of a job, as they were set last: attempts that follow begin with them, at the end of the log."""

from collections.abc import Collection
from dataclasses import dataclass

from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.dataflow.checkpoint_port import participants
from penstock.engine.plan.branch_shedders import shed_branches
from penstock.engine.plan.key_samplers import sampled_edges
from penstock.engine.plan.shedding_points import shedding_points
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.errors import BugError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.keep_rates import KeepRates, steps_of


@dataclass(slots=True)
class JobRates:
    """Shared by all attempts of a job. ``rates`` are None as long as nothing is armed: then nothing is logged."""

    rates: KeepRates | None = None


def check_rates(graph: ExecutionGraph, rates: KeepRates) -> None:
    """Check that rates are those of shedders that a plan has.

    Raises:
        BugError: a name is that of no source or branch that may be shed, or a rate is no multiple of 1/64 in [0, 1].
    """
    points = shedding_points(graph.graph, bounded=True)
    unknown = [name for name in rates.sources if name not in points.sources]
    if unknown:
        raise BugError(f"a keep rate is set for {unknown[0]!r}, which is no source that may be shed")
    shedders = shed_branches(graph.graph) | sampled_edges(graph.graph)
    for producer, consumer in rates.branches:
        if (producer, consumer) not in shedders:
            raise BugError(f"a keep rate is set for {producer!r} > {consumer!r}, which is no branch that may be shed")
    for rate in (*rates.sources.values(), *rates.branches.values()):
        if not (0.0 <= rate <= 1.0 and steps_of(rate) / 64 == rate):
            raise BugError(f"a keep rate is {rate}, which is no multiple of 1/64 in [0, 1]")


def rewind_kept(
    session: CheckpointSession, graph: ExecutionGraph, restored: RestoredState | None, tasks: Collection[TaskId] | None
) -> None:
    """Let the log of what was kept end at the checkpoint (None: the beginning) that tasks (None: all) go on from.

    Raises:
        RetryableError: the storage failed.
    """
    sources = None if tasks is None else participants(graph, tasks).sources
    session.kept.rewind(0 if restored is None else restored.epoch, session.last_epoch(), sources)
