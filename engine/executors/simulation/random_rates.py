"""Keep rates that change at random while a simulated job runs, and the input that its log says was kept for a sink."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.executors.simulation.kept_rows import KeptRows, kept_rows
from penstock.engine.executors.simulation.recorded import RecordedSource
from penstock.engine.jobs.attempt import Attempt
from penstock.engine.plan.shedding_points import shedding_points
from penstock.model.ids import OperatorId
from penstock.model.job_graph import BranchSpec, JobGraph, SinkSpec, SourceSpec
from penstock.model.keep_rates import STEPS, KeepRates, branch_name
from penstock.shedding.kept_log import Stretch


class RandomRates:
    """Sets the rates of all sources and branches that may be shed, now and then, in whatever attempt runs."""

    def __init__(self, dice: Dice, graph: JobGraph, chance: float) -> None:
        """At each look they change with this chance."""
        self._dice, self._chance = dice, chance
        points = shedding_points(graph, bounded=True)
        # A row that is dropped at its source tears the sessions behind it apart.
        self._sources = [] if points.keyed else sorted(points.sources)
        self._branches = sorted(points.branches)
        self.attempt: Attempt | None = None
        """The attempt that runs, where it is not the one that looks."""
        self.changes = 0

    def look(self, attempt: Attempt | None) -> None:
        """Let the rates change, if the dice say so."""
        if attempt is None or not attempt.is_up() or not self._dice.chance(self._chance):
            return
        self.changes += 1
        sources = {name: self._dice.below(STEPS + 1) / STEPS for name in self._sources}
        branches = {edge: self._dice.below(STEPS + 1) / STEPS for edge in self._branches}
        attempt.set_keep(KeepRates(sources, branches))


def branches_above(graph: JobGraph) -> Mapping[str, tuple[str, ...]]:
    """Return the names of the branches by which rows come to each sink of a plan, whichever of its sources they are of.

    A sink must not get rows of one source by several ways.
    """
    above: dict[OperatorId, tuple[str, ...]] = {}
    for node in graph.operators.values():
        names = {name for edge in node.inputs for name in above[edge.operator]}
        if isinstance(node.spec, BranchSpec) and node.spec.number is not None:
            names.add(branch_name(node.spec.edge))
        above[node.id] = tuple(sorted(names))
    return {node.name: above[node.id] for node in graph.operators.values() if isinstance(node.spec, SinkSpec)}


def kept_input(graph: JobGraph, seed: int, stretches: Sequence[Stretch], branches: Sequence[str] = ()) -> JobGraph:
    """Return a recorded pipeline over the rows that stayed by a log, beyond branches, each at its rate.

    All rows stayed that are not in the log.
    """
    operators = dict(graph.operators)
    for key, node in graph.operators.items():
        if isinstance(node.spec, SourceSpec) and isinstance(node.spec.source, RecordedSource):
            source = node.spec.source.where(partial(_stayed, seed, node.name, stretches, branches))
            operators[key] = replace(node, spec=replace(node.spec, source=source))
    return JobGraph(operators)


def _stayed(
    seed: int, source: str, stretches: Sequence[Stretch], branches: Sequence[str], partition: str, rows: int
) -> KeptRows:
    mine = [item for item in stretches if (item.source, item.partition) == (source, partition)]
    return kept_rows(seed, partition, mine, branches, rows)
