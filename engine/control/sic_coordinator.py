"""The coordinator of a job's queries, in its head: it sums up their SIC and says where they stand (BALANCE-SIC).

|T_s| is counted here, over all instances and partitions of a source, and is the same for all of them; so is the SIC
of results over the source time window. One thread calls it.
"""

from collections import deque

import numpy as np

from penstock.engine.control.part_reading import PartReading
from penstock.engine.control.shedding_scope import SheddingScope
from penstock.engine.plan.query_routes import QueryRoutes, query_names
from penstock.model.columns import Floats
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import SourceSpec
from penstock.model.keep_rates import branch_name
from penstock.model.sic import SIC_WINDOW_S, SicGroup, SicTerms
from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.sic import normalised, source_tuple_sic, tuples_of_sources
from penstock.shedding.sic_ledger import SicLedger

TICKS = int(SIC_WINDOW_S)
"""The ticks of a second each in the source time window."""

KINDS = ("generated", "admitted", "delivered")
"""The kinds of SIC that are counted, columns of `part_reading.SIC`."""


class SicCoordinator:
    """SIC of one run, over all its attempts."""

    def __init__(self, graph: ExecutionGraph) -> None:
        """Begin with nothing counted."""
        self._graph = graph
        self.queries = query_names(graph.graph)
        routes = QueryRoutes(graph)
        sources = [node for node in graph.graph.operators.values() if isinstance(node.spec, SourceSpec)]
        self._behind = {node.name: routes.behind(node.id) for node in sources}
        self._task = {node.name: graph.tasks.index(graph.task_of(node.id)) for node in sources}
        self._nothing = np.zeros((len(KINDS), len(self.queries)))
        self._tuples: deque[Floats] = deque(maxlen=TICKS)
        self._heard: dict[str, Floats] = {}
        self._counted: dict[str, Floats] = {}
        self._ledgers = {name: SicLedger.empty(TICKS, len(self.queries)) for name in KINDS}

    def hear(self, manager: str, part: PartReading | None) -> None:
        """Take in what was counted in a process."""
        if part is None:
            return
        sums = self._nothing
        if len(part.sic):
            sums = np.zeros_like(sums)
            for row, name in enumerate(KINDS):
                np.add.at(sums[row], part.sic["query"], part.sic[name])
        self._heard[manager] = sums

    def forget(self, manager: str) -> None:
        """A process is lost."""
        self._heard.pop(manager, None)
        self._counted.pop(manager, None)

    def tick(self, snapshot: ClusterSnapshot) -> None:
        """Enter what was counted since the last tick, a second ago."""
        grown = np.zeros_like(self._nothing)
        for manager, sums in self._heard.items():
            if sums is not self._nothing:
                # Instances that were built anew count from 0.
                grown += np.maximum(0.0, sums - self._counted.get(manager, self._nothing))
        self._counted = dict(self._heard)
        for row, name in enumerate(KINDS):
            self._ledgers[name] = self._ledgers[name].after(grown[row])
        tuples = tuples_of_sources(snapshot, SIC_WINDOW_S)
        if tuples is not None:
            self._tuples.append(tuples)

    def accuracy(self) -> Floats:
        """Return nSIC by query over the window of what was not dropped, in [0, 1]; 1 where nothing was generated.

        What is on its way to results counts: it is not lost.
        """
        share = normalised(self._ledgers["admitted"].total(), self._ledgers["generated"].total())
        return np.where(np.isnan(share), 1.0, share)

    def terms(self, scope: SheddingScope, *, sheds: str, spread: bool, shed_backlog: bool) -> SicTerms | None:
        """Return what sources are to know, None: no source has been measured yet."""
        tuples = self._tuples_by_source()
        if not tuples:
            return None
        feeding = np.maximum(np.sum([self._behind[name] for name in tuples], axis=0), 1.0)
        row_sic = {
            name: tuple(
                np.where(self._behind[name], source_tuple_sic(feeding, np.full_like(feeding, count)), 0.0).tolist()
            )
            for name, count in tuples.items()
        }
        return SicTerms(
            self.queries,
            row_sic,
            sic_groups(scope, self.queries, row_sic),
            tuple(self._ledgers["delivered"].still_valid().tolist()),
            tuple(self._ledgers["generated"].total().tolist()),
            tuple(self.accuracy().tolist()),
            sheds,
            spread,
            shed_backlog,
        )

    def _tuples_by_source(self) -> dict[str, float]:
        counted: dict[str, float] = {}
        for name, task in self._task.items():
            figures = [float(each[task]) for each in self._tuples if np.isfinite(each[task])]
            if figures and sum(figures) > 0:
                counted[name] = sum(figures) / len(figures)
        return counted


def sic_groups(
    scope: SheddingScope, queries: tuple[str, ...], row_sic: dict[str, tuple[float, ...]]
) -> tuple[SicGroup, ...]:
    """Return the queries that share what is dropped of each source, those of one way behind it together."""
    groups: list[SicGroup] = []
    numbers = {name: number for number, name in enumerate(queries)}
    for source, behind in sorted(scope.shedders.sources.items()):
        if source not in row_sic:
            continue
        edges = sorted(
            edge for edge, above in scope.shedders.origin.items() if above == source and edge not in scope.points.keyed
        )
        ways: dict[tuple[str, ...], list[str]] = {}
        for query in behind:
            way = tuple(branch_name(edge) for edge in edges if query in scope.shedders.branches[edge])
            ways.setdefault(way, []).append(query)
        for way, members in sorted(ways.items()):
            if way:
                least = [scope.shedders.branch_minimum[edge] for edge in edges if branch_name(edge) in way]
            else:
                # A source that some query needs whole is shed on branches alone.
                least = [scope.shedders.source_minimum[source]]
            minimum = max(least + [scope.minimum[query] for query in members])
            groups.append(SicGroup(source, tuple(sorted(numbers[query] for query in members)), way, minimum))
    return tuple(groups)
