"""A third executor, as small as one can be: one loop that never sleeps, whose reports come to the session a turn late.

It is made of what the engine offers to executors, and of nothing that knows the two that the engine has.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence

from penstock.engine.checkpoint.local_cuts import LocalCuts
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.builder import build
from penstock.engine.dataflow.checkpoint_port import Contribution, InstanceReport, Report, participants
from penstock.engine.dataflow.cut import InstanceCut
from penstock.engine.dataflow.instance_services import InstanceServices
from penstock.engine.dataflow.local_instances import LocalInstances
from penstock.engine.dataflow.worker import Worker
from penstock.engine.executors.simulated import memory_state
from penstock.engine.jobs.attempt import AttemptContext, JobPlan, Progress, Struck
from penstock.engine.jobs.job_rates import check_rates
from penstock.engine.jobs.ledger import check_ledger, read_ledger
from penstock.engine.jobs.metrics import JobMetrics, read_metrics
from penstock.engine.plan.regions import struck_by
from penstock.model.ids import TaskId
from penstock.model.keep_rates import KeepRates


class SteppedAttempt:
    """An `Attempt`."""

    def __init__(self, plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> None:
        self.drained, self.at_end = True, False
        self._plan, self._clock, self._session = plan, context.clock, context.checkpoints
        self._letters = DeadLetterWriter(plan.directory, default="skip")
        self._cuts = LocalCuts(context.cut_writer, self._letters.flush)
        self._late: deque[tuple[int, Report]] = deque()
        self._services = InstanceServices(
            context.clock,
            memory_state,
            self._letters,
            wake=self.wake,
            report=self._report,
            sampling_seed=plan.sampling_seed,
        )
        self._worker = Worker((), context.clock)
        self._instances = LocalInstances()
        self._started_ns = context.clock.monotonic_ns()
        self.build: Build = build(plan.graph, plan.loop, self._services, start)
        self._shed = context.shed
        self._begin(self.build, None, start)

    def _report(self, attempt: int, report: InstanceReport) -> None:
        self._late.append((attempt, self._cuts.take(report) if isinstance(report, InstanceCut) else report))

    def _begin(self, part: Build, tasks: frozenset[TaskId] | None, start: AttemptStart) -> None:
        if self._shed.rates is not None:
            part.set_keep(self._shed.rates)
        self._instances.add(part.instances)
        self._session.started(self, participants(self._plan.graph, tasks), start)
        self._worker.add(part.instances)

    def proceed(self, until: Callable[[], bool], until_ns: int | None, progress: Progress | None) -> Struck | None:
        try:
            while not until() and self._session.stopped is None:
                late, self._late = self._late, deque()
                self._worker.step()
                for attempt, report in late:
                    self._session.report(attempt, report)
                self._session.turn()
                failure = self._session.take_failure()
                if failure is not None:
                    return Struck(failure.error, struck_by(self._plan.graph, failure.sink))
        except Exception as error:
            at = self._worker.at
            return Struck(error, None if at is None else self.build.tasks_of((at,)))
        if self._session.stopped is not None:
            self.drained = self._session.stopped.ended
        return None

    def is_up(self) -> bool:
        return len(self._instances) > 0

    def take_down(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        gone = [item for item in self._instances if tasks is None or self.build.tasks_of((item,)) <= tasks]
        self._worker.remove(gone)
        self._instances.remove(gone)
        for instance in gone:
            if instance.head is not None:
                instance.head.close()
            for node in instance.nodes:
                node.operator.abort()
        names = [item.name for item in gone]
        self._cuts.forget(names)
        self._session.failed(str(error), names)

    def restore(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        region = build(self._plan.graph, self._plan.loop, self._services, start, tasks)
        self.build.replace(region)
        self._begin(region, tasks, start)

    def finish(self) -> None:
        for head in self.build.heads():
            head.close()
        for operator in self.build.operators():
            operator.close() if self.drained else operator.abort()
        self._instances.remove(list(self._instances))
        check_ledger(read_ledger(self.build), ended=self.drained)

    def stop(self, *, drain: bool = False) -> None:
        self._session.drain() if drain else self._session.request(then_stop=True)

    def wake(self, instance: str | None = None) -> None:
        self._worker.wake(instance)

    def inject(self, epoch: int, names: Collection[str], *, last: bool) -> None:
        self._instances.inject(epoch, names, last=last)

    def end_sources(self, names: Collection[str]) -> None:
        self._instances.end_sources(names)

    def begin_upload(self, epoch: int) -> Callable[[], Sequence[Contribution]]:
        return self._cuts.begin_upload(epoch)

    def give_up(self, epoch: int) -> None:
        self._cuts.give_up(epoch)

    def set_keep(self, rates: KeepRates) -> None:
        check_rates(self._plan.graph, rates)
        self._shed.rates = rates
        self.build.set_keep(rates)

    def metrics(self) -> JobMetrics:
        now_ns = self._clock.monotonic_ns()
        return read_metrics(self._plan.name, self.build, self._started_ns, now_ns, self._clock.wall_us())
