"""Keep rates that change at random while a simulated job runs, and the input that its log says was kept."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.executors.simulation.recorded import RecordedSource
from penstock.engine.jobs.attempt import Attempt
from penstock.engine.plan.shedding_points import shedding_points
from penstock.model.job_graph import JobGraph, SourceSpec
from penstock.model.keep_rates import STEPS, KeepRates, steps_of
from penstock.shedding.kept_log import Stretch
from penstock.shedding.offset_sampling import sample_steps


class RandomRates:
    """Sets the rates of all sources that may be shed, now and then, in whatever attempt runs."""

    def __init__(self, dice: Dice, graph: JobGraph, chance: float) -> None:
        """At each look they change with this chance."""
        self._dice, self._chance = dice, chance
        self._sources = sorted(shedding_points(graph, bounded=True).at_sources().sources)
        self.attempt: Attempt | None = None
        """The attempt that runs, where it is not the one that looks."""
        self.changes = 0

    def look(self, attempt: Attempt | None) -> None:
        """Let the rates change, if the dice say so."""
        if attempt is None or not attempt.is_up() or not self._dice.chance(self._chance):
            return
        self.changes += 1
        attempt.set_keep(KeepRates({name: self._dice.below(STEPS + 1) / STEPS for name in self._sources}))


def kept_input(graph: JobGraph, seed: int, stretches: Sequence[Stretch]) -> JobGraph:
    """Return a recorded pipeline over the rows that stayed by a log; all stayed that are not in it."""
    operators = dict(graph.operators)
    for key, node in graph.operators.items():
        if isinstance(node.spec, SourceSpec) and isinstance(node.spec.source, RecordedSource):
            mine = [item for item in stretches if item.source == node.name]
            source = node.spec.source.where(partial(_stays, seed, mine))
            operators[key] = replace(node, spec=replace(node.spec, source=source))
    return JobGraph(operators)


def _stays(seed: int, stretches: Sequence[Stretch], partition: str, rows: int) -> pa.Array:
    steps = sample_steps(seed, partition, np.arange(rows))
    limits = np.full(rows, STEPS)
    for item in stretches:
        if item.partition == partition:
            limits[item.start : item.stop] = steps_of(item.keep)
    return pa.array(steps < limits)
