"""What controllers of a job heed and act through, each None where there is none: handed to them by who runs the job."""

from dataclasses import dataclass

from penstock.engine.control.move_actuator import MoveActuator
from penstock.engine.control.quota_share import QuotaShare
from penstock.engine.control.scale_actuator import ScaleActuator
from penstock.engine.jobs.running_limits import RunningLimits
from penstock.engine.jobs.running_memory import RunningMemory


@dataclass(frozen=True, slots=True)
class Levers:
    """Limits of queries and memory of operators as they change, what carries sizes out, what carries moves out.

    ``quota`` is the job's share in what several jobs have.
    """

    limits: RunningLimits | None = None
    memory: RunningMemory | None = None
    sizes: ScaleActuator | None = None
    moves: MoveActuator | None = None
    quota: QuotaShare | None = None


NO_LEVERS = Levers()
