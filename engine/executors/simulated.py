"""The simulated executor: whole runs of a pipeline under one seed each, and what came out compared.

Worker loop, gates, operators, checkpoints and recovery are the real ones; clock, scheduler, transport, disk, sources
and sinks are those of `simulation`. Called by ``penstock simulate`` and by tests
(docs/design/simulated-runs.md).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from penstock.engine.checkpoint.kept_files import read_kept_files
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.instance_services import StateFactory
from penstock.engine.executors.simulation.attempt import SimulatedAttempt
from penstock.engine.executors.simulation.cluster import Cluster
from penstock.engine.executors.simulation.faults import ALL, NONE, Faults, PowerLossError
from penstock.engine.executors.simulation.kept_keys import allowed, key_samples
from penstock.engine.executors.simulation.managed import MOST_MANAGERS, ManagedProcess
from penstock.engine.executors.simulation.moving import RandomMoves
from penstock.engine.executors.simulation.outputs import SinkDifference, difference, standing
from penstock.engine.executors.simulation.paged import SimulatedPaging
from penstock.engine.executors.simulation.random_drains import RandomDrains
from penstock.engine.executors.simulation.random_rates import branches_above, kept_input
from penstock.engine.executors.simulation.random_routes import RandomRoutes
from penstock.engine.executors.simulation.recording import Recording, nothing_left, record_pipeline, sinks_in_caller
from penstock.engine.executors.simulation.rescales import RandomRescales
from penstock.engine.executors.simulation.seed_result import SeedResult
from penstock.engine.executors.simulation.staged_sink import StagedSink
from penstock.engine.executors.simulation.timing_dependence import timing_dependent_sinks, without_sinks
from penstock.engine.executors.simulation.world import World
from penstock.engine.jobs.attempt import Attempt, AttemptContext, JobPlan
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.jobs.recovery_options import JobEnvironment, RecoveryOptions
from penstock.engine.operators.sink import written_schema
from penstock.engine.plan.planner import plan
from penstock.model.config import CheckpointOptions, LoopOptions, RestartOptions
from penstock.model.errors import BugError, CheckpointError, PlanError, StateCorruptionError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.failpoints import arm
from penstock.model.ids import OperatorId
from penstock.model.job_graph import SinkSpec
from penstock.state.checkpoints.manifest import LAST_EPOCH
from penstock.state.store import StateStore
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import StoreImage

__all__ = ["Recording", "SeedResult", "Simulation", "memory_state", "record_pipeline"]

_BATCHES = 32
"""Into about how many batches the rows of a run are cut, so that there are moments enough for things to go wrong."""

_UNDISTURBED_TURNS = 2_000_000
_PATIENCE = 60
"""A run that takes so many times as long as the undisturbed one is stuck."""


def memory_state(operator: str, instance: int, image: StoreImage) -> StateStore:
    """Make a store in memory, without a bound."""
    return MemoryStore(operator, None, image)


class Simulation:
    """A recorded pipeline and what it puts out undisturbed; each `run` is one seed."""

    def __init__(
        self,
        recording: Recording,
        *,
        parallelism: int = 2,
        faults: Faults = ALL,
        state: StateFactory = memory_state,
        paging: SimulatedPaging | None = None,
        key_groups: int = 16,
        managed: bool = False,
        head_kills: int = 0,
    ) -> None:
        """Run it undisturbed at ``parallelism``; at each restart of a process another, up to twice that, is drawn.

        If it is ``managed`` its instances run on task managers of a head, of which the seed draws the number. Up to
        ``head_kills`` times the head alone is killed while a checkpoint is taken or its task managers are adopted.

        State lies in the stores of ``state``, or by keys in those of ``paging``.

        Raises:
            PlanError: no sink is left whose rows are promised.
            PenstockError: the pipeline fails by itself.
        """
        self.recording = recording
        self.faults = faults
        self.parallelism = parallelism
        self._state = state
        self._paging = paging
        self.managed, self.head_kills = managed, head_kills
        self.sheds = self.admits = False
        """Whether keep rates change at random, and stretches of rows are admitted and dropped beside that; what comes
        out is compared with undisturbed runs over the rows that the log says were kept. To be set before `run`."""
        self.moves = False
        """Whether key groups change their instances at random while a job runs; its state is paged. To be set before
        `run`."""
        self.moves_wanted = 25.0
        """About how many moves are asked for while an undisturbed job runs."""
        self.rescales = False
        """Whether the parallelism of operators changes at random while a job runs. To be set before `run`."""
        self.drains = False
        """Whether task managers are drained at random while a job runs on several. To be set before `run`."""
        self.routes = False
        """Whether shares of rows that may go to any instance change at random. To be set before `run`."""
        batch_rows = min(max(recording.rows // _BATCHES, 4), 8_192)
        self.loop = LoopOptions(batch_rows=batch_rows, channel_bytes=64 * batch_rows, key_groups=key_groups)
        self._plans: dict[tuple[int, bool], ExecutionGraph] = {}
        self.left_out: dict[str, str] = dict(recording.left_out)
        self._graph = recording.graph
        self._turns, self._virtual_ns = 1_000, 100_000_000
        self.expected: dict[str, pa.Table] = {}
        """The rows that stand in each sink, by its name."""
        self._leave_late_rows_out(self._undisturbed())

    def run(self, seed: int) -> SeedResult:
        """Run under one seed, to its end, and compare."""
        most_turns = self._turns * _PATIENCE + 20_000
        world = World(seed, self.faults, self._state, self._paging, self._turns, most_turns)
        world.fate.head_kills = world.dice.between(1, self.head_kills) if self.head_kills else 0
        if self.sheds:
            world.shed(self.plan_at(self.parallelism).graph, admits=self.admits)
        if self.moves:
            world.moves = RandomMoves(world.dice, self.moves_wanted / self._turns)
        if self.rescales:
            world.rescales = RandomRescales(world.dice, 15.0 / self._turns, self.loop.key_groups, seed)
        if self.drains:
            world.drains = RandomDrains(world.dice, 60.0 / self._turns, MOST_MANAGERS)
        if self.routes:
            world.routes = RandomRoutes(world.dice, 25.0 / self._turns)
        life = _Life(world, self)
        problem = life.through()
        differences: tuple[SinkDifference, ...] = ()
        if problem is None:
            try:
                expected = self._kept(world, life.sinks) if self.sheds else self.expected
                differences = tuple(self._differences(life.sinks, expected))
            except FileNotFoundError as error:
                problem = f"what was committed is gone: {error}"
            else:
                problem = "; ".join(map(str, differences)) or None
        fate = world.fate
        return SeedResult(
            seed=seed,
            problem=problem,
            differences=differences,
            crashes=fate.crashes,
            crashed_at=dict(fate.crashed_at),
            passed=dict(fate.passed),
            rescaled=life.rescaled,
            committed=life.committed,
            moves=None if world.moves is None else world.moves.counts,
            rescales=None if world.rescales is None else world.rescales.counts,
            drains=None if world.drains is None else world.drains.counts,
            routes=0 if world.routes is None else world.routes.changed,
            turns=world.turned,
            virtual_ns=world.clock.monotonic_ns(),
            story=world.history.story(),
            trace=world.history.trace(),
        )

    def plan_at(self, parallelism: int, *, in_caller: bool = False) -> ExecutionGraph:
        """Return the plan for a parallelism; with ``in_caller`` sinks stay in the process that starts the job."""
        if (key := (parallelism, in_caller)) not in self._plans:
            graph = sinks_in_caller(self._graph) if in_caller else self._graph
            self._plans[key] = plan(graph, parallelism, apart=self.managed)
        return self._plans[key]

    def interval_ms(self, world: World) -> int:
        """Draw the time between checkpoints, so that a run takes several."""
        if self.managed:
            # Most of the time goes by while processes start.
            return world.dice.between(1, 12)
        return max(1, self._virtual_ns // 1_000_000 // world.dice.between(3, 12))

    def _undisturbed(self) -> list[str]:
        """Run without faults, keep what stands in the sinks, and return the operators that had late rows."""
        world = World(0, NONE, self._state, self._paging, self._turns, _UNDISTURBED_TURNS)
        life = _Life(world, self)
        problem = life.through()
        if problem is not None:
            raise life.error or PlanError(problem)
        self._turns = max(world.turned, 1)
        self._virtual_ns = world.clock.monotonic_ns()
        self.expected = dict(self._standing(life.sinks))
        return life.late()

    def _leave_late_rows_out(self, late: list[str]) -> None:
        timed = timing_dependent_sinks(self._graph, late) if late else {}
        if not timed:
            return
        self.left_out.update(timed)
        self._graph = without_sinks(self._graph, timed)
        self._plans.clear()
        if not self._graph.operators:
            raise nothing_left(self.left_out)
        self._undisturbed()

    def _kept(self, world: World, sinks: Mapping[str, StagedSink]) -> Mapping[str, pa.Table]:
        """Return what stands in each sink after an undisturbed run over what was kept for it.

        Of what is made of the rows of a key that is as good as what was written, where keys were dropped.
        """
        job = JobPlan("simulated", self.plan_at(self.parallelism), self.loop, Path("simulated"))
        stretches = read_kept_files(world.repository.files, LAST_EPOCH)
        ways = branches_above(job.graph.graph)
        expected: dict[str, pa.Table] = {}
        for way in sorted(set(ways.values())):
            graph = kept_input(self._graph, job.sampling_seed, stretches, way)
            recording = replace(self.recording, graph=graph)
            kept = Simulation(recording, parallelism=self.parallelism, faults=NONE, key_groups=self.loop.key_groups)
            expected |= {name: kept.expected[name] for name, branches in ways.items() if branches == way}
        samples = key_samples(job.graph.graph)
        written = dict(self._standing(sinks)) if samples else {}
        for name, sample in samples.items():
            expected[name] = allowed(sample, self.expected[name], written[name], job.sampling_seed, stretches)
        return expected

    def _differences(
        self, sinks: Mapping[str, StagedSink], expected: Mapping[str, pa.Table]
    ) -> Iterable[SinkDifference]:
        for name, actual in self._standing(sinks):
            differs = difference(name, expected[name], actual)
            if differs is not None:
                yield differs

    def _standing(self, sinks: Mapping[str, StagedSink]) -> Iterable[tuple[str, pa.Table]]:
        for node in self._graph.operators.values():
            if isinstance(node.spec, SinkSpec):
                rows = sinks[node.name].committed()
                if rows is None:
                    graph = self.plan_at(1).graph
                    edge = graph[node.id].inputs[0]
                    rows = written_schema(node.spec, graph[edge.operator].outputs[edge.output]).empty_table()
                yield node.name, standing(rows, node.spec)


class _Life:
    """A job's processes, one after the other, in one world."""

    def __init__(self, world: World, simulation: Simulation) -> None:
        self.sinks: dict[str, StagedSink] = {}
        self.error: BaseException | None = None
        self.rescaled = 0
        self.committed = 0
        self.damaged_starts = 0
        """How many processes in a row failed of damaged pages before they had committed anything."""
        self._committed_now = 0
        self._world = world
        self._simulation = simulation
        self._options = CheckpointOptions(
            interval_ms=simulation.interval_ms(world),
            timeout_ms=2_000,
            retain=world.dice.between(1, 3),
            directory="disk",
            max_failed=1_000_000,
        )
        self._parallelism = simulation.parallelism
        self._in_caller = simulation.managed and world.dice.chance(0.3)
        self._last: Attempt | None = None
        self._runs = 0
        self._cluster: Cluster | None = None

    def through(self) -> str | None:
        """Run to the end; return what went wrong that must not."""
        arm(self._world.fate.at_failpoint)
        try:
            while True:
                try:
                    self._process()
                    return None
                except PowerLossError:
                    self._world.fate.after_power_loss()
                except CheckpointError as error:
                    if not self._world.fate.damaged:
                        raise
                    # All that was retained is damaged: whoever runs the job begins anew, as the error says.
                    self._world.history.event(f"begun anew: {error}")
                    self._world.empty_repository()
                except StateCorruptionError as error:
                    self._damaged(error)
                self._rescale()
        except Exception as error:
            self.error = error
            self._world.history.event(f"PROBLEM {type(error).__name__}: {error}")
            return f"{type(error).__name__}: {error}"
        finally:
            arm(None)

    def late(self) -> list[str]:
        """Return the operators that had late rows in the last attempt."""
        assert self._last is not None
        return [line.operator for line in self._last.metrics().ledger.operators if line.late]

    def _damaged(self, error: StateCorruptionError) -> None:
        """Do as somebody whose job has failed of damaged pages: start it again, and anew if that was of no use.

        A damaged page may be in the last checkpoint, whose digests are those of the files as they were uploaded.

        Raises:
            StateCorruptionError: it was not a fault.
        """
        world = self._world
        if not world.pages_were_damaged():
            raise error
        self.damaged_starts = 1 if self._committed_now else self.damaged_starts + 1
        world.history.event(f"started again: {error}")
        if self.damaged_starts > 1:
            world.history.event("begun anew: the last checkpoint has damaged pages")
            world.empty_repository()
            self.damaged_starts = 0

    def _go_on_without_head(self) -> None:
        """Let task managers that have outlived their head go on a while, unless the power was lost with it."""
        cluster, world = self._cluster, self._world
        if cluster is None:
            return
        most_ns = world.dice.choose([1_000_000, 100_000_000, 5_000_000_000, 100_000_000_000])
        until_ns = world.clock.monotonic_ns() + world.dice.below(most_ns)
        while cluster.is_anyone_left() and world.clock.monotonic_ns() < until_ns:
            cluster.turn(until_ns)

    def _process(self) -> None:
        world = self._world
        lives = world.fate.has_power
        if self._cluster is not None and not (lives and self._cluster.is_anyone_left()):
            self._cluster.let_go()
            self._cluster = None
        world.restart()
        self._go_on_without_head()
        graph = self._bound(self._simulation.plan_at(self._parallelism, in_caller=self._in_caller))
        directory = Path("simulated") if world.pages is None else world.pages.directory
        restarts = RestartOptions(first_delay_ms=1, most_delay_ms=20, start_timeout_ms=86_400_000)
        self._runs += 1
        managed = ManagedProcess(world, self._runs, self._cluster) if self._simulation.managed else None
        job = RecoveringJob(
            JobPlan("simulated", graph, self._simulation.loop, directory),
            RecoveryOptions(self._options, restarts, version="simulated"),
            managed or self._attempt,
            JobEnvironment(
                clock=world.clock,
                warn=self._warned,
                repository=world.repository,
                background=world.background,
                pause=world.pause if managed is None else managed.pause,
                page_stores=None if world.pages is None else world.pages.stores,
            ),
        )
        try:
            job.run()
        finally:
            if managed is not None:
                self._last, self._cluster = managed.last or self._last, managed.cluster
            self._committed_now = job.session.statistics().committed
            self.committed += self._committed_now

    def _warned(self, text: str) -> None:
        """Note what the job tells. Checkpoints are skipped because a fault has damaged them, or they came too early.

        Raises:
            BugError: it was not a fault.
        """
        self._world.history.event(text)
        if self._world.drains is not None:
            self._world.drains.hear(text)
        if text.startswith("CHECKPOINTS SKIPPED") and not self._world.fate.damaged:
            raise BugError(f"no fault has damaged a checkpoint: {text}")

    def _attempt(self, plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> SimulatedAttempt:
        self._last = SimulatedAttempt(self._world, plan, context, start)
        return self._last

    def _rescale(self) -> None:
        parallelism = self._parallelism
        # Task managers that live are of use only to the same plan.
        outlived = self._cluster is not None and self._cluster.is_anyone_left()
        if self._world.dice.chance(0.1 if outlived else 0.5):
            parallelism = self._world.dice.between(1, 2 * self._simulation.parallelism)
        if parallelism != self._parallelism:
            self.rescaled += 1
            self._world.history.event(f"parallelism {self._parallelism} -> {parallelism}")
            self._parallelism = parallelism

    def _bound(self, graph: ExecutionGraph) -> ExecutionGraph:
        """Return the plan with sinks on this world's disk."""
        operators = dict(graph.graph.operators)
        for key, node in operators.items():
            if isinstance(node.spec, SinkSpec):
                operators[key] = replace(node, spec=replace(node.spec, sink=self._sink(key, node.name, node.spec)))
        return replace(graph, graph=replace(graph.graph, operators=operators))

    def _sink(self, key: OperatorId, name: str, spec: SinkSpec) -> StagedSink:
        assert isinstance(spec.sink, StagedSink)
        sink = self.sinks[name] = spec.sink.on(self._world.files)
        return sink
