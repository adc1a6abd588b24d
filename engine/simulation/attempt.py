"""One attempt of a job on many workers, turned by a seeded scheduler in one thread (engine.md 1).

Made by the recovering job in place of `EmbeddedJob`. Each turn one thing happens: a worker steps, an element or an
acknowledgement arrives, background work proceeds, or the coordinator looks.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.engine.build import Build, build
from penstock.engine.checkpoint_session import CheckpointSession
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.cuts import InstanceCut
from penstock.engine.elements import Barrier, Batch, EndOfStream, Watermark
from penstock.engine.embedded import Progress
from penstock.engine.instance import Instance, OnCut
from penstock.engine.ledger import check_ledger, read_ledger
from penstock.engine.metrics import JobMetrics, read_metrics
from penstock.engine.operators.contract import Clock
from penstock.engine.restored import Restored
from penstock.engine.simulation.calls import CallsAtOnce
from penstock.engine.simulation.faults import PowerLossError
from penstock.engine.simulation.network import Link, Network
from penstock.engine.simulation.world import StuckError, World
from penstock.engine.transport.in_memory import Channel
from penstock.engine.worker import Ran, Waiting, Worker
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import TaskId

MOST_WORKERS = 4


class SimulatedAttempt:
    """Runs the instances of one build, each on the worker that the seed chose."""

    def __init__(
        self,
        world: World,
        name: str,
        graph: ExecutionGraph,
        options: LoopOptions,
        directory: Path,
        /,
        *,
        clock: Clock,
        restored: Restored | None,
        checkpoints: CheckpointSession,
        attempt: int,
    ) -> None:
        """Place and build everything; nothing runs yet."""
        self.name = name
        self.drained = True
        self._world = world
        self._clock = clock
        self._graph = graph
        self._checkpoints = checkpoints
        self._network = Network(world.dice, world.history, world.faults, clock.monotonic_ns)
        self._place = self._placed(graph)
        silent = DeadLetterWriter(directory, default="skip")
        self.build: Build = build(
            graph,
            options,
            clock,
            world.state,
            silent,
            wake=self.wake,
            async_calls=CallsAtOnce,
            restored=restored,
            channel=self._channel,
            paging=None if world.paging is None else world.paging(),
        )
        if restored is not None:
            restored.close()
        checkpoints.started(self.build, attempt, restored)
        self._acknowledged: list[deque[Callable[[], None]]] = [deque() for _ in range(self._count)]
        self._workers = [self._worker(number) for number in range(self._count)]
        self._instances = {instance.name: instance for instance in self.build.instances}
        world.watermarks.restored(None if restored is None else restored.epoch)
        # Workers for whom nothing has happened since they found nothing to do, and until when they wait.
        self._waiting: dict[int, int | None] = {}
        self._started_ns = clock.monotonic_ns()
        epoch = "nothing" if restored is None else f"epoch {restored.epoch}"
        instances = len(self.build.instances)
        world.history.event(
            f"attempt {attempt} begins from {epoch}: {instances} instances on {self._count} workers, "
            f"parallelism {max(task.parallelism for task in graph.tasks)}"
        )

    def run(self, progress: Progress | None = None) -> None:
        """Turn until the last checkpoint is committed, then close everything and check the ledger.

        Raises:
            PowerLossError: the process is gone.
            PenstockError: the attempt failed.
        """
        try:
            while self.turn():
                pass
            for head in self.build.heads():
                head.close()
            for operator in self.build.operators():
                operator.close() if self.drained else operator.abort()
            check_ledger(read_ledger(self.build), ended=self.drained)
        except PowerLossError:
            raise
        except BaseException as error:
            self._world.history.event(f"attempt fails: {type(error).__name__}: {error}")
            for release in (*(h.close for h in self.build.heads()), *(o.abort for o in self.build.operators())):
                release()
            raise

    def turn(self) -> bool:
        """Let one thing happen; return False when the last checkpoint is committed.

        Raises:
            StuckError: nothing can happen any more.
        """
        self._world.turn()
        self._network.maybe_cut(4.0 / self._world.turns)
        if not self._step():
            return False
        if self._checkpoints.failure is not None:
            raise self._checkpoints.failure
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

    def wake(self) -> None:
        """Let every worker look again."""
        for worker in getattr(self, "_workers", ()):
            worker.wake()

    def metrics(self) -> JobMetrics:
        """Return a snapshot."""
        now_ns = self._clock.monotonic_ns()
        return read_metrics(self.name, self.build, self._started_ns, now_ns, self._clock.wall_us())

    def _step(self) -> bool:
        world, now_ns = self._world, self._clock.monotonic_ns()
        choices: list[Callable[[], None]] = [
            partial(self._work, number)
            for number in range(self._count)
            if number not in self._waiting or ((until := self._waiting[number]) is not None and until <= now_ns)
        ]
        choices += [partial(self._deliver, link) for link in self._network.due(now_ns)]
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
            self._sleep(now_ns)
        return True

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

    def _sleep(self, now_ns: int) -> None:
        times = [
            self._network.next_ns(),
            self._world.background.due_ns(),
            self._checkpoints.due_ns(),
            *self._waiting.values(),
        ]
        next_ns = min((time for time in times if time is not None and time > now_ns), default=None)
        if next_ns is None:
            raise StuckError("nothing can happen any more, and the job has not ended")
        self._world.sleep_until(next_ns)

    def _placed(self, graph: ExecutionGraph) -> dict[tuple[TaskId, int], int]:
        dice = self._world.dice
        self._count = dice.between(1, MOST_WORKERS)
        return {(task.id, index): dice.below(self._count) for task in graph.tasks for index in range(task.parallelism)}

    def _channel(self, edge: Edge, producer: int, receiver: int, name: str, capacity_bytes: int) -> Channel:
        source = self._place[self._graph.task_of(edge.producer).id, producer]
        target = self._place[self._graph.task_of(edge.consumer).id, receiver]
        if source == target:
            return Channel(name, capacity_bytes)
        return self._network.link(name, capacity_bytes)

    def _worker(self, number: int) -> Worker:
        tasks = [(task.id, index) for task in self._graph.tasks for index in range(task.parallelism)]
        mine = [
            instance
            for place, instance in zip(tasks, self.build.instances, strict=True)
            if self._place[place] == number
        ]
        for instance in mine:
            self._delay_acknowledgements(instance, number)
        return Worker(mine, self._clock)

    def _delay_acknowledgements(self, instance: Instance, number: int) -> None:
        """Let the coordinator hear of a cut some turns later, in the order of each worker."""
        tell: OnCut | None = instance.on_cut
        assert tell is not None

        def on_cut(cut: InstanceCut, *, ended: bool) -> None:
            what = "end" if ended else f"barrier {cut.epoch}"
            self._world.history.detail(f"{cut.instance} is cut at its {what}")
            self._world.watermarks.cut(cut.epoch, instance)
            self._acknowledged[number].append(partial(tell, cut, ended=ended))

        instance.on_cut = on_cut


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
