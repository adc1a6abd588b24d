"""The controllers of a job in one process: once a second, between two steps of the loop, they see what it does.

They recommend, and place nothing: there is one process. A user's function that takes long delays them.
"""

from pathlib import Path

from penstock.engine.control.decision_log import DecisionLog
from penstock.engine.control.job_control import TICK_NS, JobControl, JobPlaces
from penstock.engine.control.part_reading import read_part
from penstock.engine.control.reading import HERE
from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.build import Build
from penstock.engine.executors.managers.host_probe import Probe, SystemProbe
from penstock.engine.jobs.attempt import AttemptContext, JobPlan


class EmbeddedControl:
    """What controllers of a run see and decide, over all its attempts."""

    def __init__(self, plan: JobPlan, clock: Clock, log: DecisionLog, probe: Probe) -> None:
        """Begin with nothing measured; the log is closed with it."""
        self._clock, self._probe = clock, probe
        self._control = JobControl(plan.name, plan.graph, plan.loop, clock.monotonic_ns(), log)
        self.due_ns = clock.monotonic_ns()
        """When `look` has something to do."""

    def thread_cpu_ns(self) -> int:
        """Return the time that the calling thread has used on a core."""
        return self._probe.thread_cpu_ns()

    def look(self, build: Build) -> None:
        """Read the job if it is time, and let controllers see it."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self.due_ns:
            return
        self.due_ns = now_ns + TICK_NS
        self._control.hear(HERE, self._probe.read(), read_part(build, now_ns), now_ns)
        places = {instance.name: HERE for instance in build.instances}
        self._control.tick(JobPlaces((HERE,), HERE, places, {HERE: 0.0}), now_ns)

    def close(self) -> None:
        """Close the log."""
        self._control.close()


def open_control(path: Path, plan: JobPlan, context: AttemptContext) -> EmbeddedControl:
    """Return the controllers of a job whose log is at a path; they are closed with the job.

    Raises:
        OptionError: the log cannot be written.
        ActionLogError: the file is no log.
    """
    control = EmbeddedControl(plan, context.clock, DecisionLog(path, context.warn), SystemProbe())
    context.resources.callback(control.close)
    return control
