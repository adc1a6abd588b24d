"""The channels of a plan: their halves, the outputs that producers send by, and the inputs of receivers' gates."""

from collections.abc import Mapping, Sequence

from penstock.engine.dataflow.exchange import Broadcast, Forward, Hash, Output, Rebalance
from penstock.engine.dataflow.input_gate import GateInput
from penstock.engine.dataflow.instance_services import InstanceServices
from penstock.engine.expressions.compiler import CompiledProjection, compile_projection
from penstock.engine.restore.key_group_owners import leaders
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.model.errors import BugError
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners

Pair = tuple[int, int]
"""The indices of a producer's and a receiver's instance."""


class Wiring:
    """Joins the instances of a plan that are hosted here with each other and with those that are elsewhere."""

    def __init__(
        self,
        graph: ExecutionGraph,
        services: InstanceServices,
        capacity_bytes: int,
        owners: Mapping[TaskId, Owners],
    ) -> None:
        """Begin without channels; ``owners`` are those of the key groups of each task."""
        self.senders: dict[Edge, dict[Pair, SendingHalf]] = {}
        self.receivers: dict[Edge, dict[Pair, ReceivingHalf]] = {}
        self.outputs: dict[Edge, dict[int, Output]] = {}
        self._graph = graph
        self._make = services.channel
        self._hosts = services.hosts
        self._capacity_bytes = capacity_bytes
        self._owners = owners
        self._leads = leaders(graph)
        self._keys: dict[Edge, CompiledProjection] = {}

    def join(self, edge: Edge, begun: Pair = (0, 0)) -> None:
        """Make the channels of an edge, or the halves of them that are here.

        Where producers and receivers of numbers below these have ``begun`` before, channels are made of those that
        follow alone.
        """
        senders = self.senders[edge] = {}
        receivers = self.receivers[edge] = {}
        producer_task, consumer_task = self._graph.task_of(edge.producer), self._graph.task_of(edge.consumer)
        hosted = {number: self._hosts(consumer_task.id, number) for number in consumer_task.numbers}
        for producer in producer_task.numbers:
            sends = self._hosts(producer_task.id, producer)
            for pair in self._pairs_from(edge, producer):
                if not (sends or hosted[pair[1]]) or (pair[0] < begun[0] and pair[1] < begun[1]):
                    continue
                numbers = f"[{producer}]" if edge.exchange == "forward" else f"[{pair[0]}, {pair[1]}]"
                name = f"{edge.producer}.{edge.output} -> {edge.consumer}.{edge.port} {numbers}"
                sender, receiver = self._make(edge, *pair, name, self._capacity_bytes)
                if sender is not None:
                    senders[pair] = sender
                if receiver is not None:
                    receivers[pair] = receiver

    def inputs(self, edge: Edge, receiver: int) -> Sequence[GateInput]:
        """Return what one receiver of an edge takes from."""
        producers = self._graph.task_of(edge.producer).numbers
        forward = edge.exchange == "forward"
        pairs = [(receiver, receiver)] if forward else [(producer, receiver) for producer in producers]
        return [GateInput(self.receivers[edge][pair], edge.port) for pair in pairs]

    def output(self, edge: Edge, producer: int) -> Output:
        """Return what one producer of an edge sends by."""
        output = self._exchange(edge, producer)
        output.leads_to = self._leads[self._graph.task_of(edge.consumer).id]
        self.outputs.setdefault(edge, {})[producer] = output
        return output

    def _exchange(self, edge: Edge, producer: int) -> Output:
        pairs = self._pairs_from(edge, producer)
        senders, numbers = [self.senders[edge][pair] for pair in pairs], [receiver for _, receiver in pairs]
        match edge.exchange:
            case "forward":
                return Forward(senders, numbers)
            case "broadcast":
                return Broadcast(senders, numbers)
            case "rebalance":
                return Rebalance(senders, first=producer, numbers=numbers)
            case "hash":
                return self._hash(edge, senders, numbers)
        raise BugError(f"edge {edge} has an unknown exchange")

    def _hash(self, edge: Edge, senders: Sequence[SendingHalf], numbers: Sequence[int]) -> Hash:
        keys = self._keys.get(edge)
        if keys is None:
            schema = self._graph.node(edge.producer).outputs[edge.output].fields
            named = [(f"k{position}", key) for position, key in enumerate(edge.keys)]
            keys = self._keys[edge] = compile_projection(named, schema, self._graph.node(edge.consumer).name)
        owners = self._owners[self._graph.task_of(edge.consumer).id]
        return Hash(senders, keys, keys.schema.types, owners, numbers)

    def _pairs_from(self, edge: Edge, producer: int) -> list[Pair]:
        """Return the channels of one producer; a forward edge joins each with the one receiver of its number."""
        if edge.exchange == "forward":
            return [(producer, producer)]
        return [(producer, receiver) for receiver in self._graph.task_of(edge.consumer).numbers]
