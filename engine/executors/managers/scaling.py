"""What carries the sizes of a job on task managers out, if it can change them."""

from penstock.engine.control.scale_actuator import ScaleActuator
from penstock.engine.jobs.attempt import AttemptContext
from penstock.model.control import ControlOptions


def actuator_of(context: AttemptContext, options: ControlOptions) -> ScaleActuator | None:
    """Return it; None: the job takes no checkpoints, behind which alone parallelism changes."""
    if context.checkpoints is None:
        return None
    cores = None if options.control is None else options.control.cores
    return ScaleActuator(context.rescales, context.managers, cores)
