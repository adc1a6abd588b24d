"""What carries the sizes of a job on task managers out, if it can change them."""

from collections.abc import Mapping

from penstock.engine.control.scale_actuator import ScaleActuator
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.model.control import ControlOptions
from penstock.model.execution_graph import ExecutionGraph


def actuator_of(plan: JobPlan, context: AttemptContext, options: ControlOptions) -> ScaleActuator | None:
    """Return it; None: the job takes no checkpoints, behind which alone parallelism changes."""
    if context.checkpoints is None:
        return None
    cores = None if options.control is None else options.control.cores

    def change_memory(graph: ExecutionGraph, budgets: Mapping[str, int]) -> MemorySummary:
        return context.memory.change(graph, plan.loop, budgets, paged=True)

    return ScaleActuator(context.rescales, context.managers, cores, change_memory)
