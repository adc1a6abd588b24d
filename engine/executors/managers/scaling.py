"""What controllers of a job on task managers act through."""

from collections.abc import Mapping

from penstock.engine.control.levers import Levers
from penstock.engine.control.move_actuator import MoveActuator
from penstock.engine.control.scale_actuator import ScaleActuator
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.model.control import ControlOptions
from penstock.model.execution_graph import ExecutionGraph


def levers_of(plan: JobPlan, context: AttemptContext, options: ControlOptions) -> Levers:
    """Return it; a job without checkpoints changes no sizes, and nothing of it moves."""
    if context.checkpoints is None:
        return Levers(context.limits, context.memory)
    cores = None if options.control is None else options.control.cores

    def change_memory(graph: ExecutionGraph, budgets: Mapping[str, int]) -> MemorySummary:
        return context.memory.change(graph, plan.loop, budgets, paged=True)

    sizes = ScaleActuator(context.rescales, context.managers, cores, change_memory, (context.moves, context.routes))
    return Levers(context.limits, context.memory, sizes, MoveActuator(context.moves))
