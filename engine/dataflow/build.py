"""From an execution graph to instances wired by channels, ready for a worker loop."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from penstock.engine.core.contract import DeadLetters, Operator, OperatorContext, RowCounters
from penstock.engine.dataflow.attempt_start import FIRST, AttemptStart
from penstock.engine.dataflow.chain import ChainNode
from penstock.engine.dataflow.dead_letter_output import DeadLetterOutput
from penstock.engine.dataflow.exchange import Rebalance
from penstock.engine.dataflow.input_gate import InputGate
from penstock.engine.dataflow.instance import Instance, Participation
from penstock.engine.dataflow.instance_services import InstanceServices
from penstock.engine.dataflow.key_positions import KeyPositions
from penstock.engine.dataflow.sic_account import SicAccount
from penstock.engine.dataflow.source_alignment import SourceAlignment
from penstock.engine.dataflow.source_discovery import discovery_of
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.source_options import ReadPace, SourceStart, SourceStream
from penstock.engine.dataflow.wiring import Pair, Wiring
from penstock.engine.operators.registry import make_operator
from penstock.engine.operators.sink import SinkOperator
from penstock.engine.plan.branch_shedders import branches_behind
from penstock.engine.plan.free_edges import Routes
from penstock.engine.plan.key_samplers import key_samplers_behind
from penstock.engine.plan.planner import has_broadcast_input, lies_by_key, placed_by
from penstock.engine.plan.query_routes import QueryRoutes
from penstock.engine.plan.regions import region_id, regions
from penstock.engine.restore.key_group_owners import owner_tables
from penstock.engine.restore.source_positions import restored_partitions
from penstock.engine.restore.state_assignment import OperatorStart
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.model.config import LoopOptions
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.errors import SchemaError
from penstock.model.execution_graph import Edge, ExecutionGraph, Task, instance_name
from penstock.model.ids import OperatorId, TaskId
from penstock.model.job_graph import MAIN, OperatorNode, SourceSpec
from penstock.model.keep_rates import KeepRates, branch_name
from penstock.model.key_groups import Owners
from penstock.model.sic import SicTerms
from penstock.shedding.kept_log import Stretch
from penstock.state.store import Locate, StateStore


@dataclass
class Build:
    """Everything that runs here: instances by task, in their order, halves of channels by edge, counters by operator.

    What was built of some tasks only has those of them; what is hosted elsewhere is not in it. ``alignments`` are those
    of regions, by their `region_id`, ``owners`` who had the key groups of each task when it was built.
    ``rebalances`` are the outputs of producers here whose rows may go to any instance.
    """

    graph: ExecutionGraph
    tasks: dict[TaskId, list[Instance]] = field(default_factory=dict)
    senders: dict[Edge, dict[Pair, SendingHalf]] = field(default_factory=dict)
    receivers: dict[Edge, dict[Pair, ReceivingHalf]] = field(default_factory=dict)
    counters: dict[OperatorId, list[RowCounters]] = field(default_factory=dict)
    stores: dict[OperatorId, list[StateStore]] = field(default_factory=dict)
    alignments: dict[TaskId, SourceAlignment] = field(default_factory=dict)
    owners: dict[TaskId, Owners] = field(default_factory=dict)
    rebalances: dict[Edge, list[Rebalance]] = field(default_factory=dict)

    @property
    def instances(self) -> list[Instance]:
        """Every instance, in task order."""
        return [instance for instances in self.tasks.values() for instance in instances]

    def tasks_of(self, instances: Collection[Instance]) -> frozenset[TaskId]:
        """Return the tasks of some instances."""
        return frozenset(task for task, members in self.tasks.items() if not set(members).isdisjoint(instances))

    def replace(self, part: "Build") -> None:
        """Put what was built anew of some tasks in the place of what was there of them; from the thread of the loop."""
        self.tasks.update(part.tasks)
        self.senders.update(part.senders)
        self.receivers.update(part.receivers)
        self.counters.update(part.counters)
        self.stores.update(part.stores)
        self.alignments.update(part.alignments)
        self.owners.update(part.owners)
        self.rebalances.update(part.rebalances)

    def remove(self, tasks: Collection[TaskId]) -> None:
        """Let go of what was built of some tasks, whole regions; from the thread of the loop."""
        operators = {operator for task in self.graph.tasks if task.id in tasks for operator in task.operators}
        for task in tasks:
            self.tasks.pop(task, None)
            self.alignments.pop(task, None)
        for operator in operators:
            self.counters.pop(operator, None)
            self.stores.pop(operator, None)
        for edge in [*self.senders, *self.receivers]:
            if edge.producer in operators:
                self.senders.pop(edge, None)
                self.receivers.pop(edge, None)
                self.rebalances.pop(edge, None)

    def operators(self) -> list[Operator]:
        """Return every operator of every instance."""
        return [node.operator for instance in self.instances for node in instance.nodes]

    def set_keep(self, rates: KeepRates) -> None:
        """Let sources, and branches behind them, shed from their next read on."""
        branches = {branch_name(edge): rate for edge, rate in rates.branches.items()}
        for head in self.heads():
            head.set_keep(rates.sources.get(head.name, 1.0), branches)

    def set_routes(self, routes: Routes) -> None:
        """Let instances get these shares of rows that may go to any, from the next batch on; in turns without."""
        for edge, outputs in self.rebalances.items():
            for output in outputs:
                output.set_shares(routes.get(self.graph.node(edge.consumer).name, ()))

    def set_sic(self, terms: SicTerms) -> None:
        """Let sources know what their records stand for, and sinks how accurate their queries are."""
        for head in self.heads():
            head.set_sic(terms)
        for instance in self.instances:
            for node in instance.nodes:
                if isinstance(node.operator, SinkOperator) and terms.accuracy:
                    node.operator.share = terms.accuracy[terms.queries.index(node.name)]

    def take_stretches(self) -> tuple[Stretch, ...]:
        """Return what sources have read since the last call, with its keep rates; nothing of those not armed."""
        return tuple(stretch for head in self.heads() for stretch in head.take_stretches())

    def heads(self) -> list[SourceHead]:
        """Return every source head."""
        return [instance.head for instance in self.instances if instance.head is not None]


def build(
    graph: ExecutionGraph,
    options: LoopOptions,
    services: InstanceServices,
    start: AttemptStart = FIRST,
    tasks: Collection[TaskId] | None = None,
) -> Build:
    """Make operators, channels and instances, and open the operators; nothing runs yet.

    With ``tasks``, whole regions of the graph, nothing is made of the others. When opening fails, what was opened is
    aborted or closed before the error is raised.
    """
    builder = _Builder(graph, options, services, start)
    try:
        return builder.build(graph.tasks if tasks is None else [task for task in graph.tasks if task.id in tasks])
    except BaseException:
        for operator in builder.opened:
            operator.abort()
        for head in builder.heads:
            head.close()
        raise


class _Builder:
    def __init__(
        self, graph: ExecutionGraph, options: LoopOptions, services: InstanceServices, start: AttemptStart
    ) -> None:
        self._graph = graph
        self._options = options
        self._services = services
        self._restored = start.restored
        self._participation: Participation | None = None
        if services.report is not None:
            self._participation = Participation(
                partial(services.report, start.attempt), start.last_epoch, services.moves
            )
        noted = {} if start.restored is None else start.restored.owners()
        self._owners = owner_tables(graph, options.key_groups, noted)
        self._routes = QueryRoutes(graph)
        self._wiring = Wiring(graph, services, options.channel_bytes, self._owners)
        wiring = self._wiring
        self._build = Build(graph, senders=wiring.senders, receivers=wiring.receivers, rebalances=wiring.rebalances)
        self.opened: list[Operator] = []
        self.heads: list[SourceHead] = []

    def build(self, tasks: Sequence[Task]) -> Build:
        producers = {operator for task in tasks for operator in task.operators}
        for edge in self._graph.edges:
            if not edge.chained and edge.producer in producers:
                self._wiring.join(edge)
        region_of = {task: region_id(region) for region in regions(self._graph) for task in region}
        for task in tasks:
            # Pipelines that share no channel never wait for each other.
            alignment = self._build.alignments.setdefault(region_of[task.id], SourceAlignment())
            self._build.owners[task.id] = self._owners[task.id]
            self._build.tasks[task.id] = [
                self._instance(task, index, alignment)
                for index in range(task.parallelism)
                if self._services.hosts(task.id, index)
            ]
        return self._build

    def _instance(self, task: Task, index: int, alignment: SourceAlignment) -> Instance:
        clock, participation = self._services.clock, self._participation
        head_node = self._graph.node(task.head)
        root = self._chain(task, task.head, index)
        name = self._graph.name(task)
        if isinstance(head_node.spec, SourceSpec):
            head = self._head(head_node, head_node.spec, task, index, root)
            self.heads.append(head)
            alignment.add(head)
            return Instance(name, index, clock, root=root, head=head, alignment=alignment, participation=participation)
        inputs = [item for edge in self._graph.incoming(task.head) for item in self._wiring.inputs(edge, index)]
        gate = InputGate(inputs, self._options.batch_rows, index)
        return Instance(name, index, clock, root=root, gate=gate, participation=participation)

    def _head(self, node: OperatorNode, spec: SourceSpec, task: Task, index: int, root: ChainNode) -> SourceHead:
        positions = {} if self._restored is None else self._restored.positions(node.name)
        partitions = restored_partitions(spec.source, task.parallelism, positions)
        closed = self._restored is not None and node.name in self._restored.closed
        loop = self._options
        return SourceHead(
            SourceStream(
                node.name,
                spec.source,
                node.outputs[MAIN].time,
                spec.watermark_delay_us,
                spec.max_ahead_us,
                self._services.sampling_seed,
                branches_behind(self._graph.graph, node.id),
                key_samplers_behind(self._graph.graph, node.id),
            ),
            SourceStart(
                partitions[index :: task.parallelism],
                positions,
                discovery_of(spec.source, index, task.parallelism, partitions),
                closed,
            ),
            ReadPace(
                loop.batch_rows, loop.linger_ms * 1_000_000, loop.idle_timeout_ms * 1_000_000, self._services.keeps
            ),
            clock=self._services.clock,
            counters=root.counters,
            dead_letters=root.letters or self._services.dead_letters,
            wake=self._waker(task, index),
        )

    def _chain(self, task: Task, operator: OperatorId, index: int) -> ChainNode:
        node = self._graph.node(operator)
        start = self._start(node, task, index)
        counters = start.counters
        self._build.counters.setdefault(operator, []).append(counters)
        # The rows a source takes in are counted by its head.
        own = RowCounters() if isinstance(node.spec, SourceSpec) else counters
        letters = self._letters(operator)
        operation = self._operator(node, task, index, start, own, letters or self._services.dead_letters)
        account = SicAccount(self._routes.of_outputs(operator))
        member = ChainNode(node.name, operation, counters, letters=letters, sic=account)
        for edge in self._graph.outgoing(operator):
            if edge.chained:
                target = self._chain(task, edge.consumer, index)
                target.port = edge.port
                member.chained.setdefault(edge.output, []).append(target)
            else:
                member.exchanged.setdefault(edge.output, []).append(self._wiring.output(edge, index))
        return member

    def _letters(self, operator: OperatorId) -> DeadLetterOutput | None:
        """Return where an instance's dead letters go if something reads them."""
        if not self._graph.graph.is_read(operator, DEAD_LETTER):
            return None
        return DeadLetterOutput(self._services.dead_letters, self._services.clock, self._options.batch_rows)

    def _start(self, node: OperatorNode, task: Task, index: int) -> OperatorStart:
        if self._restored is None:
            return OperatorStart()
        keyed, owners = lies_by_key(self._graph, node), self._owners[task.id]
        if self._services.paging is not None and keyed:
            return self._restored.paged_start_of(node.name, index, owners)
        if has_broadcast_input(node):
            self._restored.check_parallelism(node.name, task.parallelism)
        return self._restored.start_of(node.name, index, task.parallelism, owners, keyed)

    def _locate(self, node: OperatorNode) -> tuple[Locate, ...]:
        """Return, for each input of a keyed operator, where the keys of its rows lie."""
        if not lies_by_key(self._graph, node):
            return ()
        edges = sorted(self._graph.incoming(node.id), key=lambda edge: edge.port)
        return tuple(
            KeyPositions(edge.keys, self._graph.node(edge.producer).outputs[edge.output].fields, node.name)
            for edge in edges
        )

    def _operator(
        self,
        node: OperatorNode,
        task: Task,
        index: int,
        start: OperatorStart,
        counters: RowCounters,
        dead_letters: DeadLetters,
    ) -> Operator:
        inputs = [self._graph.node(edge.operator).outputs[edge.output] for edge in node.inputs]
        operator: Operator
        if self._services.paging is not None and lies_by_key(self._graph, node):
            operator = self._services.paging.operator(
                lambda: make_operator(node.spec, inputs, node.name), node.name, index, start.sources
            )
        else:
            operator = make_operator(node.spec, inputs, node.name)
        store = self._services.state(node.name, index, start.image)
        self.opened.append(operator)
        try:
            operator.open(
                OperatorContext(
                    name=node.name,
                    instance=index,
                    parallelism=task.parallelism,
                    clock=self._services.clock,
                    state=store,
                    counters=counters,
                    dead_letters=dead_letters,
                    key_groups=self._owners[task.id],
                    batch_rows=self._options.batch_rows,
                    seed=_seed(self._options.seed, node.name, index),
                    wake=self._waker(task, index),
                    async_calls=self._services.async_calls,
                    restored=start.notes,
                    locate=self._locate(node),
                    placed_by=placed_by(self._graph, node),
                    emit_interval_us=self._options.emit_interval_us,
                    sampling_seed=self._services.sampling_seed,
                )
            )
        except KeyError as error:
            if not start.notes and not start.sources:
                raise
            raise SchemaError(
                f"the state of {node.name!r} was written by another kind of operator, which did not note {error}: give "
                f"operators their old names back, or begin this one without state, with drop_state={node.name!r}."
            ) from error
        store.forget_image()
        self._build.stores.setdefault(node.id, []).append(operator.context.state)
        return operator

    def _waker(self, task: Task, index: int) -> Callable[[], None]:
        return partial(self._services.wake, instance_name(self._graph.name(task), index))


def _seed(seed: int, name: str, index: int) -> int:
    """Give every operator instance its own repeatable seed."""
    return int(np.random.SeedSequence([seed, index, *name.encode()]).generate_state(1)[0])
