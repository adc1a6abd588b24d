"""What controllers of a job on task managers act through."""

from collections.abc import Callable, Mapping

from penstock.engine.control.levers import Levers
from penstock.engine.control.move_actuator import MoveActuator
from penstock.engine.control.quota_share import QuotaKeeper, QuotaShare
from penstock.engine.control.scale_actuator import ScaleActuator
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.model.control import Control, ControlOptions
from penstock.model.execution_graph import ExecutionGraph


def levers_of(
    plan: JobPlan, context: AttemptContext, options: ControlOptions, keeper: Callable[[str], QuotaKeeper]
) -> Levers:
    """Return it; a job without checkpoints changes no sizes, and nothing of it moves.

    ``keeper`` returns who keeps the leases on the quota of a name.

    Raises:
        OptionError: there is no such quota to be had.
    """
    if context.checkpoints is None:
        return Levers(context.limits, context.memory)
    cores = None if options.control is None else options.control.cores

    def change_memory(graph: ExecutionGraph, budgets: Mapping[str, int]) -> MemorySummary:
        return context.memory.change(graph, plan.loop, budgets, paged=True)

    hand_out = (context.moves, context.routes)
    sizes = ScaleActuator(context.rescales, context.managers, cores, change_memory, hand_out, context.cores)
    quota = _quota(plan, context, options.control, keeper)
    return Levers(context.limits, context.memory, sizes, MoveActuator(context.moves), quota)


def _quota(
    plan: JobPlan, context: AttemptContext, control: Control | None, keeper: Callable[[str], QuotaKeeper]
) -> QuotaShare | None:
    if control is None or control.quota is None or not control.may_scale:
        return None
    keeps = keeper(control.quota)
    context.resources.callback(keeps.leave, plan.name)
    return QuotaShare(keeps, plan.name, control.priority, control.cores, control.memory_bytes)
