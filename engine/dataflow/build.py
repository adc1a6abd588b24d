"""What was built of an execution graph: instances wired by channels, which a worker loop steps."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from penstock.engine.core.contract import Operator, RowCounters
from penstock.engine.dataflow.exchange import Output, Rebalance
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.source_alignment import SourceAlignment
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.wiring import Pair
from penstock.engine.operators.sink import SinkOperator
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.plan.free_edges import Routes
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.ids import OperatorId, TaskId
from penstock.model.keep_rates import KeepRates, branch_name
from penstock.model.key_groups import Owners
from penstock.model.sic import SicTerms
from penstock.shedding.kept_log import Stretch
from penstock.state.store import StateStore


@dataclass
class Build:
    """Everything that runs here: instances by task, in their order, halves of channels by edge, counters by operator.

    What was built of some tasks only has those of them; what is hosted elsewhere is not in it. ``outputs`` are what
    producers here send by, ``alignments`` those of regions, by their `region_id`, ``owners`` who had the key groups of
    each task when it was built.
    """

    graph: ExecutionGraph
    tasks: dict[TaskId, list[Instance]] = field(default_factory=dict)
    senders: dict[Edge, dict[Pair, SendingHalf]] = field(default_factory=dict)
    receivers: dict[Edge, dict[Pair, ReceivingHalf]] = field(default_factory=dict)
    outputs: dict[Edge, dict[int, Output]] = field(default_factory=dict)
    counters: dict[OperatorId, list[RowCounters]] = field(default_factory=dict)
    stores: dict[OperatorId, list[StateStore]] = field(default_factory=dict)
    alignments: dict[TaskId, SourceAlignment] = field(default_factory=dict)
    owners: dict[TaskId, Owners] = field(default_factory=dict)

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
        self.outputs.update(part.outputs)
        self.counters.update(part.counters)
        self.stores.update(part.stores)
        self.alignments.update(part.alignments)
        self.owners.update(part.owners)

    def add(self, part: "Build") -> None:
        """Take in what was built beside what is there of the same tasks; from the thread of the loop."""
        self.graph = part.graph
        for task, instances in part.tasks.items():
            self.tasks[task] = [*self.tasks.get(task, ()), *instances]
        for edge, halves in part.senders.items():
            self.senders[edge] = self.senders.get(edge, {}) | halves
        for edge, ends in part.receivers.items():
            self.receivers[edge] = self.receivers.get(edge, {}) | ends
        for edge, outputs in part.outputs.items():
            self.outputs[edge] = self.outputs.get(edge, {}) | outputs
        for operator, counters in part.counters.items():
            self.counters[operator] = [*self.counters.get(operator, ()), *counters]
        for operator, stores in part.stores.items():
            self.stores[operator] = [*self.stores.get(operator, ()), *stores]
        self.owners = part.owners | self.owners
        self.alignments = part.alignments | self.alignments

    def dismiss(self, gone: Mapping[TaskId, Collection[int]]) -> None:
        """Let producers send nothing more to these instances of tasks, which go; from the thread of the loop.

        Sources that go have given their partitions to others.
        """
        for task, instances in self.tasks.items():
            for instance in instances:
                if instance.head is not None and instance.index in gone.get(task, ()):
                    instance.head.dismiss()
                    instance.on_change()
        for edge, outputs in self.outputs.items():
            # Over a forward edge a receiver goes with its producer.
            if edge.exchange != "forward":
                numbers = gone.get(self.graph.task_of(edge.consumer).id, ())
                for output in outputs.values():
                    output.dismiss(numbers)

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
        for edge in [item for item in self.outputs if item.producer in operators]:
            del self.outputs[edge]

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
        for edge, outputs in self.outputs.items():
            for output in outputs.values():
                if isinstance(output, Rebalance):
                    output.set_shares(routes.get(self.graph.node(edge.consumer).name, ()))

    def set_memory(self, budgets: Mapping[str, int | None]) -> None:
        """Let operators whose state lies by keys, by name, have these budgets in each of their instances."""
        for operator, stores in self.stores.items():
            name = self.graph.node(operator).name
            for store in stores if name in budgets else ():
                if isinstance(store, BucketStores):
                    store.approach_budget(budgets[name])

    def set_sic(self, terms: SicTerms) -> None:
        """Let sources know what their records stand for, and sinks how accurate their queries are."""
        for head in self.heads():
            head.set_sic(terms)
        for instance in self.instances:
            for node in instance.nodes:
                if isinstance(node.operator, SinkOperator):
                    number = terms.queries.index(node.name)
                    told = terms.accuracy[number] if terms.accuracy else 1.0
                    node.operator.loss.hear(told, partial(node.sic.of, number))

    def take_stretches(self) -> tuple[Stretch, ...]:
        """Return what sources have read since the last call, with its keep rates; nothing of those not armed."""
        return tuple(stretch for head in self.heads() for stretch in head.take_stretches())

    def heads(self) -> list[SourceHead]:
        """Return every source head."""
        return [instance.head for instance in self.instances if instance.head is not None]
