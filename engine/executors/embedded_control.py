"""The controllers of a job in one process: between two steps of the loop they see what it does, and set keep rates.

They place nothing, as there is one process. A user's function that takes long delays them, which is counted.
"""

from collections.abc import Callable

from penstock.engine.control.job_control import TICK_NS, JobControl, JobPlaces
from penstock.engine.control.levers import Levers
from penstock.engine.control.local_guard import GUARD_NS, LocalGuard
from penstock.engine.control.local_sic import LocalSic
from penstock.engine.control.part_reading import read_part
from penstock.engine.control.reading import HERE
from penstock.engine.control.start_control import start_control
from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.build import Build
from penstock.engine.executors.managers.host_probe import Probe, SystemProbe
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.control import ControlOptions
from penstock.model.keep_rates import KeepRates


class EmbeddedControl:
    """What controllers of a run see and decide, over all its attempts."""

    def __init__(self, plan: JobPlan, make: Callable[[JobPlan], JobControl], clock: Clock, probe: Probe) -> None:
        """Begin with nothing measured; ``make`` makes the controllers of a plan."""
        self._clock, self._probe, self._plan, self._make = clock, probe, plan, make
        self._control = make(plan)
        shedding = self._control.shedding
        acts = shedding is not None and shedding.is_acting
        self._guard = LocalGuard() if acts else None
        self._sic = LocalSic(probe.thread_cpu_ns)
        self._tick_ns = self._look_ns = clock.monotonic_ns()

    def change_plan(self, plan: JobPlan) -> None:
        """Let controllers begin anew if the plan is another than before."""
        if plan.graph is not self._plan.graph:
            self._control.close()
            self._plan, self._control = plan, self._make(plan)

    @property
    def due_ns(self) -> int:
        """When `look` has something to do."""
        times = [self._tick_ns if self._guard is None else min(self._tick_ns, self._look_ns)]
        return min(times if self._sic.due_ns is None else [*times, self._sic.due_ns])

    def thread_cpu_ns(self) -> int:
        """Return the time that the calling thread has used on a core."""
        return self._probe.thread_cpu_ns()

    def look(self, build: Build) -> KeepRates | None:
        """Read the job if it is time, and let controllers see it; return keep rates if others are to hold."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self.due_ns:
            return None
        before = KeepRates() if self._guard is None else self._guard.rates
        if now_ns >= self._tick_ns:
            self._tick_ns = now_ns + TICK_NS
            self._control.hear(HERE, self._probe.read(), read_part(build, now_ns, self._sic.checks), now_ns)
            places = {instance.name: HERE for instance in build.instances}
            order = self._control.tick(JobPlaces((HERE,), HERE, places, {HERE: 0.0}), now_ns, before)
            if order is not None and self._guard is not None:
                self._guard.decided(order)
                if order.sic is not None:
                    self._sic.hear(order.sic, (build,))
        if self._guard is None:
            return None
        if now_ns >= self._look_ns:
            self._look_ns = now_ns + GUARD_NS
            self._guard.look((build,), now_ns)
        self._sic.look((build,), now_ns)
        return self._guard.changed()

    def shown(self, metrics: JobMetrics) -> JobMetrics:
        """Return metrics with what was decided last; from any thread."""
        return self._control.shown(metrics, self._clock.monotonic_ns())

    def close(self) -> None:
        """Close the log."""
        self._control.close()


def open_control(options: ControlOptions, plan: JobPlan, context: AttemptContext) -> EmbeddedControl:
    """Return the controllers of a job; they are closed with it.

    Raises:
        OptionError: the log cannot be written.
        ActionLogError: the file is no log.
    """

    def make(plan: JobPlan) -> JobControl:
        levers = Levers(context.limits, context.memory)
        return start_control(plan, context.clock.monotonic_ns(), options, context.warn, levers)

    embedded = EmbeddedControl(plan, make, context.clock, SystemProbe())
    context.resources.callback(embedded.close)
    return embedded
