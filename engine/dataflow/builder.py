"""From an execution graph to instances wired by channels, ready for a worker loop."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from penstock.engine.core.contract import DeadLetters, Operator, OperatorContext, RowCounters
from penstock.engine.dataflow.attempt_start import FIRST, AttemptStart
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.chain import ChainNode
from penstock.engine.dataflow.dead_letter_output import DeadLetterOutput
from penstock.engine.dataflow.input_gate import InputGate
from penstock.engine.dataflow.instance import Instance, Participation
from penstock.engine.dataflow.instance_services import InstanceServices
from penstock.engine.dataflow.key_positions import KeyPositions
from penstock.engine.dataflow.sic_account import SicAccount
from penstock.engine.dataflow.source_alignment import SourceAlignment
from penstock.engine.dataflow.source_discovery import discovery_of
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.source_options import ReadPace, SourceStart, SourceStream
from penstock.engine.dataflow.wiring import Wiring
from penstock.engine.moves.movable import is_source
from penstock.engine.operators.registry import make_operator
from penstock.engine.plan.branch_shedders import branches_behind
from penstock.engine.plan.key_samplers import key_samplers_behind
from penstock.engine.plan.planner import has_broadcast_input, lies_by_key, placed_by
from penstock.engine.plan.query_routes import QueryRoutes
from penstock.engine.plan.regions import region_id, regions
from penstock.engine.restore.key_group_owners import owner_tables
from penstock.engine.restore.source_positions import restored_partitions
from penstock.engine.restore.state_assignment import OperatorStart
from penstock.model.config import LoopOptions
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.errors import SchemaError
from penstock.model.execution_graph import ExecutionGraph, Task, instance_name
from penstock.model.ids import OperatorId, TaskId
from penstock.model.job_graph import MAIN, OperatorNode, SourceSpec
from penstock.model.key_groups import Owners
from penstock.state.store import Locate


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
    builder = Builder(graph, options, services, start)
    with builder.letting_go():
        return builder.build(graph.tasks if tasks is None else [task for task in graph.tasks if task.id in tasks])


class Builder:
    """Makes what runs of a plan; `build` and `grow` say what."""

    def __init__(
        self,
        graph: ExecutionGraph,
        options: LoopOptions,
        services: InstanceServices,
        start: AttemptStart,
        owners: Mapping[TaskId, Owners] | None = None,
    ) -> None:
        """Begin with nothing; ``owners`` of the key groups of each task are those of the start, if not given."""
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
        self._owners = owner_tables(graph, options.key_groups, noted) if owners is None else owners
        self._routes = QueryRoutes(graph)
        self._wiring = Wiring(graph, services, options.channel_bytes, self._owners)
        wiring = self._wiring
        self._build = Build(graph, senders=wiring.senders, receivers=wiring.receivers, outputs=wiring.outputs)
        self._opened: list[Operator] = []
        self._heads: list[SourceHead] = []
        self._joins = False

    @contextmanager
    def letting_go(self) -> Iterator[None]:
        """Abort or close what was opened if the body raises."""
        try:
            yield
        except BaseException:
            for operator in self._opened:
                operator.abort()
            for head in self._heads:
                head.close()
            raise

    def grow(
        self, tasks: Sequence[Task], begun: Mapping[TaskId, int], alignments: Mapping[TaskId, SourceAlignment]
    ) -> Build:
        """Make the instances of whole regions whose numbers have not ``begun``, and the channels of them.

        Sources are aligned with those of ``alignments`` that are of their region.
        """
        self._joins = True
        producers = {operator for task in tasks for operator in task.operators}
        for edge in self._graph.edges:
            if not edge.chained and edge.producer in producers:
                ends = (self._graph.task_of(operator).id for operator in (edge.producer, edge.consumer))
                self._wiring.join(edge, (begun[next(ends)], begun[next(ends)]))
        region_of = self._region_of()
        for task in tasks:
            self._build.owners[task.id] = self._owners[task.id]
            region = region_of[task.id]
            alignment = alignments.get(region) or self._build.alignments.get(region) or SourceAlignment()
            if is_source(self._graph, task):
                self._build.alignments[region] = alignment
            self._build.tasks[task.id] = [
                self._instance(task, index, alignment)
                for index in task.numbers
                if index >= begun[task.id] and self._services.hosts(task.id, index)
            ]
        return self._build

    def _region_of(self) -> dict[TaskId, TaskId]:
        return {task: region_id(region) for region in regions(self._graph) for task in region}

    def build(self, tasks: Sequence[Task]) -> Build:
        """Make all of some tasks, whole regions, that is hosted here."""
        producers = {operator for task in tasks for operator in task.operators}
        for edge in self._graph.edges:
            if not edge.chained and edge.producer in producers:
                self._wiring.join(edge)
        region_of = self._region_of()
        for task in tasks:
            # Pipelines that share no channel never wait for each other.
            alignment = self._build.alignments.setdefault(region_of[task.id], SourceAlignment())
            self._build.owners[task.id] = self._owners[task.id]
            self._build.tasks[task.id] = [
                self._instance(task, index, alignment) for index in task.numbers if self._services.hosts(task.id, index)
            ]
        return self._build

    def _instance(self, task: Task, index: int, alignment: SourceAlignment) -> Instance:
        clock, participation = self._services.clock, self._participation
        head_node = self._graph.node(task.head)
        root = self._chain(task, task.head, index)
        name = self._graph.name(task)
        if isinstance(head_node.spec, SourceSpec):
            head = self._head(head_node, head_node.spec, task, index, root)
            self._heads.append(head)
            alignment.add(head)
            return Instance(name, index, clock, root=root, head=head, alignment=alignment, participation=participation)
        inputs = [item for edge in self._graph.incoming(task.head) for item in self._wiring.inputs(edge, index)]
        gate = InputGate(inputs, self._options.batch_rows, index)
        return Instance(name, index, clock, root=root, gate=gate, participation=participation)

    def _head(self, node: OperatorNode, spec: SourceSpec, task: Task, index: int, root: ChainNode) -> SourceHead:
        positions = {} if self._restored is None else self._restored.positions(node.name)
        # What joins others is given partitions that they have.
        partitions = [] if self._joins else restored_partitions(spec.source, task.parallelism, positions)
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
                spec.strata,
            ),
            SourceStart(
                partitions[index :: task.parallelism],
                positions,
                discovery_of(spec.source, index, task.parallelism, partitions),
                closed,
                self._joins,
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
        self._opened.append(operator)
        try:
            operator.open(
                OperatorContext(
                    name=node.name,
                    instance=index,
                    parallelism=task.first_free,
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
