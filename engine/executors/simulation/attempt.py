"""One attempt of a job on many workers, turned by a seeded scheduler in one thread.

A recovering job runs it as it runs an `EmbeddedAttempt`. Each turn one thing happens: a worker steps, an element or an
acknowledgement arrives, background work proceeds, or the coordinator looks.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from penstock.engine.checkpoint.local_cuts import LocalCuts
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.core.elements import Barrier, Batch, EndOfStream, Watermark
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.builder import build
from penstock.engine.dataflow.checkpoint_port import Contribution, InstanceReport, participants
from penstock.engine.dataflow.cut import InstanceCut
from penstock.engine.dataflow.handovers import Handover, nobody_moves
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.instance_services import Halves, InstanceServices
from penstock.engine.dataflow.local_instances import LocalInstances
from penstock.engine.dataflow.worker import Ran, Waiting, Worker
from penstock.engine.executors.simulation.calls import CallsAtOnce
from penstock.engine.executors.simulation.faults import PowerLossError
from penstock.engine.executors.simulation.moving import SimulatedMoves
from penstock.engine.executors.simulation.network import Link, Network
from penstock.engine.executors.simulation.world import StuckError, World
from penstock.engine.jobs.attempt import AttemptContext, JobPlan, LiveDone, Progress, Struck, struck_by_commit
from penstock.engine.jobs.job_rates import check_rates
from penstock.engine.jobs.ledger import check_ledger, read_ledger
from penstock.engine.jobs.metrics import JobMetrics, read_metrics
from penstock.engine.moves.live_changes import LiveChange
from penstock.engine.transport.in_memory import join
from penstock.model.errors import WorkerLostError
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.keep_rates import KeepRates

MOST_WORKERS = 4


class SimulatedAttempt:
    """An `Attempt` whose instances run each on the worker that the seed chose."""

    def __init__(
        self,
        world: World,
        plan: JobPlan,
        context: AttemptContext,
        start: AttemptStart,
    ) -> None:
        """Place and build everything; nothing runs yet."""
        self.drained = True
        self.at_end = False
        self._world = world
        self._plan = plan
        self._graph = plan.graph
        self._clock = clock = context.clock
        assert context.checkpoints is not None and context.cut_writer is not None
        self._checkpoints = context.checkpoints
        self._shed, self._rescales, self._routes = context.shed, context.rescales, context.routes
        self._network = Network(world.dice, world.history, world.faults, clock.monotonic_ns)
        self._count = world.dice.between(1, MOST_WORKERS)
        self._place: dict[tuple[TaskId, int], int] = {}
        self._letters = DeadLetterWriter(plan.directory, default="skip")
        self._cuts = LocalCuts(context.cut_writer, self._letters.flush)
        self._moves: SimulatedMoves | None = None
        if world.moves is not None:
            self._moves = SimulatedMoves(
                world.moves, plan.graph, world.history, context.checkpoints, clock.monotonic_ns
            )
        self._services = InstanceServices(
            clock,
            world.state,
            self._letters,
            wake=self.wake,
            async_calls=CallsAtOnce,
            channel=self._channel,
            paging=None if world.pages is None else world.pages.make(),
            report=self._report,
            moves=nobody_moves if self._moves is None else self._moves.tell,
            sampling_seed=plan.sampling_seed,
        )
        self._acknowledged: list[deque[Callable[[], None]]] = [deque() for _ in range(self._count)]
        self._workers = [Worker((), clock) for _ in range(self._count)]
        self._tasks: dict[str, TaskId] = {}
        self._instances = LocalInstances()
        # Workers for whom nothing has happened since they found nothing to do, and until when they wait.
        self._waiting: dict[int, int | None] = {}
        self._started_ns = clock.monotonic_ns()
        self.build: Build = self._built(None, start)
        self._begin(self.build, None, start)

    def proceed(self, until: Callable[[], bool], until_ns: int | None, progress: Progress | None) -> Struck | None:
        """Turn until ``until`` says so, something raises, or the last checkpoint is committed.

        Raises:
            PowerLossError: the process is gone.
        """
        try:
            while not until():
                goes_on = self.turn(until_ns)
                struck = struck_by_commit(self._checkpoints, self._graph)
                if struck is not None:
                    return struck
                if not goes_on:
                    break
        except WorkerLostError as error:
            return Struck(error, self._lost())
        except Exception as error:
            at = next((worker.at for worker in self._workers if worker.at is not None), None)
            return Struck(error, None if at is None else frozenset({self._tasks[at.name]}))
        return None

    def is_up(self) -> bool:
        """Return whether there is an instance that was neither taken down nor finished."""
        return len(self._instances) > 0

    def take_down(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        """Abort the instances of these tasks, and forget what is under way to them; a power loss aborts nothing."""
        if isinstance(error, PowerLossError):
            return
        failed = [item for item in self._instances if tasks is None or self._tasks[item.name] in tasks]
        self._world.history.event(
            f"{len(failed)} of {len(self._instances)} instances fail: {type(error).__name__}: {error}"
        )
        if self._moves is not None:
            self._moves.gone(failed, str(error))
        self._remove(failed)
        for instance in failed:
            if instance.head is not None:
                instance.head.close()
            for node in instance.nodes:
                node.operator.abort()
        names = [item.name for item in failed]
        self._cuts.forget(names)
        self._checkpoints.failed(str(error), names)

    def restore(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        """Build regions anew, on other workers."""
        region = self._built(tasks, start)
        self.build.replace(region)
        self._begin(region, tasks, start)

    def finish(self) -> None:
        """Close everything and check the ledger."""
        for head in self.build.heads():
            head.close()
        for operator in self.build.operators():
            operator.close() if self.drained else operator.abort()
        self._remove(list(self._instances))
        check_ledger(read_ledger(self.build), ended=self.drained)

    def turn(self, until_ns: int | None = None) -> bool:
        """Let one thing happen, or time pass up to ``until_ns``; return False when the last checkpoint is committed.

        Raises:
            StuckError: nothing can happen any more.
        """
        self._world.turn()
        self._network.maybe_cut(4.0 / self._world.turns)
        if self._world.rates is not None:
            self._world.rates.look(self)
        if self._world.admissions is not None and self._world.admissions.look(self._instances):
            self._waiting.clear()
        if self._moves is not None:
            self._moves.look()
        if self._world.rescales is not None:
            self._world.rescales.look(self._graph, self._rescales)
        if self._world.routes is not None and self._world.routes.look(self._graph, self._routes):
            self.build.set_routes(self._routes.of(self._graph))
        self._step(until_ns)
        if self._checkpoints.stopped is not None:
            self.drained = self._checkpoints.stopped.ended
            return False
        return True

    def stop(self, *, drain: bool = False) -> None:
        """Ask for a last checkpoint and the end."""
        if drain:
            self._checkpoints.drain()
        else:
            self._checkpoints.request(then_stop=True)

    def wake(self, instance: str | None = None) -> None:
        """Let every worker look again."""
        for worker in self._workers:
            worker.wake()

    def inject(self, epoch: int, names: Collection[str], *, last: bool) -> None:
        """Let sources send a barrier."""
        self._instances.inject(epoch, names, last=last)

    def end_sources(self, names: Collection[str]) -> None:
        """Let sources end."""
        self._instances.end_sources(names)

    def begin_upload(self, epoch: int) -> Callable[[], Sequence[Contribution]]:
        """Return what uploads the cuts of an epoch."""
        return self._cuts.begin_upload(epoch)

    def give_up(self, epoch: int) -> None:
        """Let go of the cuts of an epoch."""
        self._cuts.give_up(epoch)

    def set_keep(self, rates: KeepRates) -> None:
        """Let sources shed."""
        check_rates(self._graph, rates)
        self._shed.rates = rates
        self.build.set_keep(rates)

    def change_live(self, change: LiveChange | None, done: Callable[[LiveDone], None]) -> ExecutionGraph | None:
        """Return that it cannot: instances here come and go with a new attempt alone."""
        return None

    def metrics(self) -> JobMetrics:
        """Return a snapshot."""
        now_ns = self._clock.monotonic_ns()
        return read_metrics(self._plan.name, self.build, self._started_ns, now_ns, self._clock.wall_us())

    def places(self) -> Mapping[str, str]:
        """Return {}: simulated workers are no task managers."""
        return {}

    def _step(self, until_ns: int | None) -> None:
        world, now_ns = self._world, self._clock.monotonic_ns()
        choices: list[Callable[[], None]] = [
            partial(self._work, number)
            for number in range(self._count)
            if number not in self._waiting or ((until := self._waiting[number]) is not None and until <= now_ns)
        ]
        choices += [partial(self._deliver, link) for link in self._network.due(now_ns)]
        if self._moves is not None:
            choices += [partial(self._hand_over, self._moves, handover) for handover in self._moves.due(now_ns)]
        choices += [partial(self._acknowledge, number) for number, acks in enumerate(self._acknowledged) if acks]
        due_ns = world.background.due_ns()
        if due_ns is not None and due_ns <= now_ns:
            choices.append(self._proceed)
        due_ns = self._checkpoints.due_ns()
        if world.background.has_answers() or (due_ns is not None and due_ns <= now_ns):
            choices.append(self._look)
        if choices:
            world.dice.choose(choices)()
        else:
            self._sleep(now_ns, until_ns)

    def _work(self, number: int) -> None:
        worker = self._workers[number]
        if number in self._waiting:
            del self._waiting[number]
        worker.wake()
        outcome = worker.step()
        if isinstance(outcome, Ran):
            self._world.history.detail(f"worker {number} steps {outcome.instance}")
            self._world.watermarks.check(self._instances[outcome.instance])
            self._waiting.clear()
        else:
            self._waiting[number] = outcome.until_ns if isinstance(outcome, Waiting) else None

    def _deliver(self, link: Link) -> None:
        element = link.deliver()
        self._world.history.detail(f"{_words(element)} arrives by {link.name}")
        self._waiting.clear()

    def _hand_over(self, moves: SimulatedMoves, handover: Handover) -> None:
        moves.deliver(handover)
        self._waiting.clear()

    def _acknowledge(self, number: int) -> None:
        self._acknowledged[number].popleft()()
        self._waiting.clear()

    def _proceed(self) -> None:
        self._world.history.detail("background work proceeds")
        self._world.background.proceed()

    def _look(self) -> None:
        before = self._checkpoints.statistics()
        self._checkpoints.turn()
        after = self._checkpoints.statistics()
        state = self._checkpoints.coordinator.state.name.lower()
        self._world.history.detail(f"coordinator is {state}")
        if after.committed > before.committed:
            self._world.history.event(f"epoch {after.committed_epoch} is committed")
        if after.aborted > before.aborted:
            self._world.history.event(f"a checkpoint is given up: {after.last_abort}")
        self._waiting.clear()

    def _sleep(self, now_ns: int, until_ns: int | None) -> None:
        if until_ns is not None and until_ns <= now_ns:
            # The turn itself has taken until then.
            return
        times = [
            until_ns,
            self._network.next_ns(),
            None if self._moves is None else self._moves.next_ns(),
            self._world.background.due_ns(),
            self._checkpoints.due_ns(),
            *self._waiting.values(),
        ]
        next_ns = min((time for time in times if time is not None and time > now_ns), default=None)
        if next_ns is None:
            raise StuckError("nothing can happen any more, and the job has not ended")
        self._world.sleep_until(next_ns)

    def _built(self, tasks: frozenset[TaskId] | None, start: AttemptStart) -> Build:
        for task in self._graph.tasks:
            if tasks is None or task.id in tasks:
                for index in range(task.parallelism):
                    self._place[task.id, index] = self._world.dice.below(self._count)
        return build(self._graph, self._plan.loop, self._services, start, tasks)

    def _begin(self, part: Build, tasks: frozenset[TaskId] | None, start: AttemptStart) -> None:
        restored = start.restored
        self._world.watermarks.restored(None if restored is None else restored.epoch, part.instances)
        self._instances.add(part.instances)
        if self._moves is not None:
            self._moves.began(part.tasks, part.owners)
        if self._shed.rates is not None:
            part.set_keep(self._shed.rates)
        part.set_routes(self._routes.of(self._graph))
        self._checkpoints.started(self, participants(self._graph, tasks), start)
        for task, instances in part.tasks.items():
            for instance in instances:
                self._tasks[instance.name] = task
                self._workers[self._place[task, instance.index]].add((instance,))
        self._waiting.clear()
        epoch = "nothing" if restored is None else f"epoch {restored.epoch}"
        self._world.history.event(
            f"attempt {start.attempt} begins from {epoch}: {len(part.instances)} instances on {self._count} workers, "
            f"parallelism {max(task.parallelism for task in self._graph.tasks)}"
        )

    def _remove(self, instances: Collection[Instance]) -> None:
        for instance in instances:
            self._workers[self._number(instance.name)].remove((instance,))
        self._instances.remove(instances)
        self._network.drop([sender for item in instances for output in item.outputs for sender in output.senders])
        self._waiting.clear()

    def _lost(self) -> frozenset[TaskId]:
        """Draw what is gone with a worker: all that it ran, or a single instance that it could do without."""
        names = [item.name for item in self._instances]
        lost = self._world.dice.choose(names)
        if self._world.dice.chance(0.5):
            return frozenset({self._tasks[lost]})
        number = self._number(lost)
        return frozenset(self._tasks[name] for name in names if self._number(name) == number)

    def _number(self, instance: str) -> int:
        return self._place[self._tasks[instance], self._instances[instance].index]

    def _channel(self, edge: Edge, producer: int, receiver: int, name: str, capacity_bytes: int) -> Halves:
        source = self._place[self._graph.task_of(edge.producer).id, producer]
        target = self._place[self._graph.task_of(edge.consumer).id, receiver]
        channel = join(name, capacity_bytes) if source == target else self._network.link(name, capacity_bytes)
        return channel.sender, channel.receiver

    def _report(self, attempt: int, report: InstanceReport) -> None:
        """Let the coordinator hear of it some turns later, in the order of each worker."""
        if isinstance(report, InstanceCut):
            what = "end" if report.ended else f"barrier {report.epoch}"
            self._world.history.detail(f"{report.instance} is cut at its {what}")
            self._world.watermarks.cut(report, self._instances[report.instance])
            if report.ended and self._moves is not None:
                self._moves.ended(report.instance)
        else:
            self._world.history.detail(f"{report.instance} gives barrier {report.epoch} up")
        number = self._number(report.instance)
        heard = self._cuts.take(report) if isinstance(report, InstanceCut) else report
        self._acknowledged[number].append(partial(self._checkpoints.report, attempt, heard))


def _words(element: object) -> str:
    match element:
        case Batch():
            return f"a batch of {element.rows.num_rows} rows"
        case Watermark():
            return f"watermark {element.time_us}"
        case Barrier():
            return f"barrier {element.epoch}"
        case EndOfStream():
            return "the end"
    return type(element).__name__
