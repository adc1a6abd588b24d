"""From an execution graph to instances wired by channels, ready for a worker loop."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.core.async_calls import IoThread, MakeCalls
from penstock.engine.core.contract import (
    Clock,
    DeadLetters,
    Operator,
    OperatorContext,
    RowCounters,
)
from penstock.engine.dataflow.chain import ChainNode
from penstock.engine.dataflow.dead_letter_output import DeadLetterOutput
from penstock.engine.dataflow.exchange import Broadcast, Forward, Hash, Output, Rebalance
from penstock.engine.dataflow.input_gate import GateInput, InputGate
from penstock.engine.dataflow.instance import Instance, instance_name
from penstock.engine.dataflow.key_positions import KeyPositions
from penstock.engine.dataflow.source_alignment import SourceAlignment
from penstock.engine.dataflow.source_discovery import discovery_of
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.expressions.compiler import compile_projection
from penstock.engine.operators.registry import make_operator
from penstock.engine.paging.paging import Paging
from penstock.engine.plan.planner import Keyed, key_places, meets_everything
from penstock.engine.plan.regions import regions
from penstock.engine.restore.source_positions import restored_partitions
from penstock.engine.restore.state_assignment import OperatorStart, Restored
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.engine.transport.in_memory import Channel, join
from penstock.model.config import LoopOptions
from penstock.model.dead_letters import DEAD_LETTER
from penstock.model.errors import BugError, SchemaError
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.ids import OperatorId, TaskId
from penstock.model.job_graph import MAIN, AggregateSpec, OperatorNode, SourceSpec
from penstock.model.join_specs import TwoSided
from penstock.model.key_groups import assign
from penstock.state.store import Locate, StateStore
from penstock.state.tables.image import StoreImage

Wake = Callable[[str], None]
"""Makes the loop look at the instance of this name again; from any thread."""

Pair = tuple[int, int]
"""The indices of a producer's and a consumer's instance."""

StateFactory = Callable[[str, int, StoreImage], StateStore]
"""Makes the state store of one operator instance from the operator's name, the instance's index and what it holds."""


class MakeChannel(Protocol):
    """Makes the channel from one instance to another; the simulator hands in its own."""

    def __call__(self, edge: Edge, producer: int, receiver: int, name: str, capacity_bytes: int) -> Channel:
        """Make one of an edge, by the indices of its instances; `join` says what the others are."""


def nobody_wakes(instance: str) -> None:
    """Wake nobody: for loops that nothing comes to from other threads."""


def local_channel(edge: Edge, producer: int, receiver: int, name: str, capacity_bytes: int) -> Channel:
    """Make a channel inside one worker."""
    return join(name, capacity_bytes)


@dataclass
class Build:
    """Everything that runs: instances by task, in their order, halves of channels by edge, counters by operator.

    What was built of some tasks only has those of them.
    """

    graph: ExecutionGraph
    tasks: dict[TaskId, list[Instance]] = field(default_factory=dict)
    senders: dict[Edge, dict[Pair, SendingHalf]] = field(default_factory=dict)
    receivers: dict[Edge, dict[Pair, ReceivingHalf]] = field(default_factory=dict)
    counters: dict[OperatorId, list[RowCounters]] = field(default_factory=dict)
    stores: dict[OperatorId, list[StateStore]] = field(default_factory=dict)

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

    def operators(self) -> list[Operator]:
        """Return every operator of every instance."""
        return [node.operator for instance in self.instances for node in instance.nodes]

    def heads(self) -> list[SourceHead]:
        """Return every source head."""
        return [instance.head for instance in self.instances if instance.head is not None]


def build(
    graph: ExecutionGraph,
    options: LoopOptions,
    clock: Clock,
    state: StateFactory,
    dead_letters: DeadLetterWriter,
    *,
    wake: Wake = nobody_wakes,
    async_calls: MakeCalls = IoThread,
    restored: Restored | None = None,
    channel: MakeChannel = local_channel,
    paging: Paging | None = None,
    tasks: Collection[TaskId] | None = None,
    keeps: bool = False,
) -> Build:
    """Make operators, channels and instances, and open the operators; go on from ``restored``.

    With ``tasks``, whole regions of the graph, nothing is made of the others. With ``paging``, state that lies by keys
    need not fit in memory. With ``keeps`` sources leave their streams open at their ends. ``wake`` takes the name of an
    instance that is to be looked at, from any thread; ``async_calls`` is that of the operators' contexts. Nothing runs
    yet. When opening fails, what was opened is aborted or closed before the error is raised.
    """
    builder = _Builder(graph, options, clock, state, dead_letters, wake, async_calls, restored, channel, paging, keeps)
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
        self,
        graph: ExecutionGraph,
        options: LoopOptions,
        clock: Clock,
        state: StateFactory,
        dead_letters: DeadLetterWriter,
        wake: Wake,
        async_calls: MakeCalls,
        restored: Restored | None,
        channel: MakeChannel,
        paging: Paging | None,
        keeps: bool,
    ) -> None:
        self._keeps = keeps
        self._paging = paging
        self._restored = restored
        self._channel = channel
        self._graph = graph
        self._options = options
        self._clock = clock
        self._state = state
        self._dead_letters = dead_letters
        self._wake = wake
        self._async_calls = async_calls
        self._build = Build(graph)
        self.opened: list[Operator] = []
        self.heads: list[SourceHead] = []

    def build(self, tasks: Sequence[Task]) -> Build:
        producers = {operator for task in tasks for operator in task.operators}
        for edge in self._graph.edges:
            if not edge.chained and edge.producer in producers:
                self._join(edge)
        alignments: dict[TaskId, SourceAlignment] = {}
        for region in regions(self._graph):
            # Pipelines that share no channel never wait for each other.
            alignments |= dict.fromkeys(region, SourceAlignment())
        for task in tasks:
            alignment = alignments[task.id]
            self._build.tasks[task.id] = [self._instance(task, index, alignment) for index in range(task.parallelism)]
        return self._build

    def _join(self, edge: Edge) -> None:
        """Make the channels of an edge."""
        senders: dict[Pair, SendingHalf] = {}
        receivers: dict[Pair, ReceivingHalf] = {}
        for producer in range(self._graph.task_of(edge.producer).parallelism):
            for pair in self._pairs_from(edge, producer):
                numbers = f"[{producer}]" if edge.exchange == "forward" else f"[{pair[0]}, {pair[1]}]"
                name = f"{edge.producer}.{edge.output} -> {edge.consumer}.{edge.port} {numbers}"
                made = self._channel(edge, *pair, name, self._options.channel_bytes)
                senders[pair], receivers[pair] = made.sender, made.receiver
        self._build.senders[edge], self._build.receivers[edge] = senders, receivers

    def _pairs_from(self, edge: Edge, producer: int) -> list[Pair]:
        """Return the channels of one producer; a forward edge joins each with the one receiver of its number."""
        if edge.exchange == "forward":
            return [(producer, producer)]
        return [(producer, receiver) for receiver in range(self._graph.task_of(edge.consumer).parallelism)]

    def _pairs_to(self, edge: Edge, receiver: int) -> list[Pair]:
        if edge.exchange == "forward":
            return [(receiver, receiver)]
        return [(producer, receiver) for producer in range(self._graph.task_of(edge.producer).parallelism)]

    def _instance(self, task: Task, index: int, alignment: SourceAlignment) -> Instance:
        head_node = self._graph.node(task.head)
        root = self._chain(task, task.head, index)
        name = self._graph.name(task)
        if isinstance(head_node.spec, SourceSpec):
            head = self._head(head_node, head_node.spec, task, index, root.letters)
            self.heads.append(head)
            alignment.add(head)
            return Instance(name, index, self._clock, root=root, head=head, alignment=alignment)
        gate = InputGate(
            [item for edge in self._graph.incoming(task.head) for item in self._inputs(edge, index)],
            self._options.batch_rows,
        )
        return Instance(name, index, self._clock, root=root, gate=gate)

    def _inputs(self, edge: Edge, index: int) -> Sequence[GateInput]:
        receivers = self._build.receivers[edge]
        return [GateInput(receivers[pair], edge.port) for pair in self._pairs_to(edge, index)]

    def _head(
        self, node: OperatorNode, spec: SourceSpec, task: Task, index: int, letters: DeadLetterOutput | None
    ) -> SourceHead:
        positions = {} if self._restored is None else self._restored.positions(node.name)
        partitions = restored_partitions(spec.source, task.parallelism, positions)
        return SourceHead(
            node.name,
            spec.source,
            partitions[index :: task.parallelism],
            node.outputs[MAIN].time,
            spec.watermark_delay_us,
            clock=self._clock,
            counters=self._counters(node.id, index),
            dead_letters=letters or self._dead_letters,
            batch_rows=self._options.batch_rows,
            linger_ns=self._options.linger_ms * 1_000_000,
            idle_timeout_ns=self._options.idle_timeout_ms * 1_000_000,
            positions=positions,
            discovery=discovery_of(spec.source, index, task.parallelism, partitions),
            keeps=self._keeps,
            closed=self._restored is not None and node.name in self._restored.closed,
            max_ahead_us=spec.max_ahead_us,
            wake=self._waker(task, index),
        )

    def _chain(self, task: Task, operator: OperatorId, index: int) -> ChainNode:
        node = self._graph.node(operator)
        start = self._start(node, task, index)
        counters = self._counters(operator, index, start)
        # The rows a source takes in are counted by its head.
        own = RowCounters() if isinstance(node.spec, SourceSpec) else counters
        letters = self._letters(operator)
        made = self._operator(node, task, index, start, own, letters or self._dead_letters)
        member = ChainNode(node.name, made, counters, letters=letters)
        for edge in self._graph.outgoing(operator):
            if edge.chained:
                target = self._chain(task, edge.consumer, index)
                target.port = edge.port
                member.chained.setdefault(edge.output, []).append(target)
            else:
                member.exchanged.setdefault(edge.output, []).append(self._output(edge, task, index))
        return member

    def _letters(self, operator: OperatorId) -> DeadLetterOutput | None:
        """Return where an instance's dead letters go if something reads them."""
        if not self._graph.graph.is_read(operator, DEAD_LETTER):
            return None
        return DeadLetterOutput(self._dead_letters, self._clock, self._options.batch_rows)

    def _start(self, node: OperatorNode, task: Task, index: int) -> OperatorStart:
        if self._restored is None:
            return OperatorStart()
        if self._paging is not None and self._is_keyed(node):
            return self._restored.paged_start_of(node.name, index)
        if isinstance(node.spec, TwoSided) and meets_everything(node):
            self._restored.check_parallelism(node.name, task.parallelism)
        return self._restored.start_of(node.name, index, self._owners(task.parallelism), self._is_keyed(node))

    def _is_keyed(self, node: OperatorNode) -> bool:
        """Return whether an operator has state that lies by the keys of its rows, from every input."""
        if not isinstance(node.spec, Keyed | TwoSided) or meets_everything(node):
            return False
        return all(edge.keys for edge in self._graph.incoming(node.id))

    def _placed_by(self, node: OperatorNode) -> tuple[int, ...] | None:
        """Return by which of its keys an aggregate's rows lie; None: by all."""
        if not isinstance(node.spec, AggregateSpec):
            return None
        placing = self._graph.incoming(node.id)[0].keys
        return key_places(node.spec, placing) if len(placing) < len(node.spec.keys) else None

    def _locate(self, node: OperatorNode) -> tuple[Locate, ...]:
        """Return, for each input of a keyed operator, where the keys of its rows lie."""
        if not self._is_keyed(node):
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
        if self._paging is not None and self._is_keyed(node):
            operator = self._paging.operator(
                lambda: make_operator(node.spec, inputs, node.name), node.name, index, start.sources
            )
        else:
            operator = make_operator(node.spec, inputs, node.name)
        store = self._state(node.name, index, start.image)
        self.opened.append(operator)
        try:
            operator.open(
                OperatorContext(
                    name=node.name,
                    instance=index,
                    parallelism=task.parallelism,
                    clock=self._clock,
                    state=store,
                    counters=counters,
                    dead_letters=dead_letters,
                    key_groups=self._owners(task.parallelism),
                    batch_rows=self._options.batch_rows,
                    seed=_seed(self._options.seed, node.name, index),
                    wake=self._waker(task, index),
                    async_calls=self._async_calls,
                    restored=start.notes,
                    locate=self._locate(node),
                    placed_by=self._placed_by(node),
                    emit_interval_us=self._options.emit_interval_us,
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

    def _output(self, edge: Edge, task: Task, index: int) -> Output:
        mine = [self._build.senders[edge][pair] for pair in self._pairs_from(edge, index)]
        if edge.exchange == "forward":
            return Forward(mine)
        if edge.exchange == "broadcast":
            return Broadcast(mine)
        if edge.exchange == "rebalance":
            return Rebalance(mine, first=index)
        if edge.exchange != "hash":
            raise BugError(f"edge {edge} has an unknown exchange")
        schema = self._graph.node(edge.producer).outputs[edge.output].fields
        named = [(f"k{position}", key) for position, key in enumerate(edge.keys)]
        projection = compile_projection(named, schema, self._graph.node(edge.consumer).name)
        return Hash(mine, projection, projection.schema.types, self._owners(len(mine)))

    def _waker(self, task: Task, index: int) -> Callable[[], None]:
        return partial(self._wake, instance_name(self._graph.name(task), index))

    def _owners(self, instances: int) -> NDArray[np.int32]:
        return assign(max(self._options.key_groups, instances), instances)

    def _counters(self, operator: OperatorId, index: int, start: OperatorStart | None = None) -> RowCounters:
        per_instance = self._build.counters.setdefault(operator, [])
        while len(per_instance) <= index:
            per_instance.append(RowCounters())
        if start is not None and start.counters is not None:
            per_instance[index].add(start.counters)
        return per_instance[index]


def _seed(seed: int, name: str, index: int) -> int:
    """Give every operator instance its own repeatable seed."""
    return int(np.random.SeedSequence([seed, index, *name.encode()]).generate_state(1)[0])
