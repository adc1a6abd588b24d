"""Stretches of waiting records that are admitted or dropped at random while a simulated job runs, as SIC would choose.

What was admitted last is read, then its partition waits for more, until it is let go.
"""

from collections.abc import Iterable, Sequence

from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.executors.simulation.history import History
from penstock.engine.plan.shedding_points import shedding_points
from penstock.model.job_graph import JobGraph
from penstock.model.keep_rates import branch_name
from penstock.model.sic import Admission

_SOON = 0.05
"""The chance of more, at each look, once a source has read all that was admitted."""

_MOST_STRETCHES = 4


class RandomAdmissions:
    """Decides what is read next of the sources that may be shed, now and then, in whatever process they run."""

    def __init__(self, dice: Dice, history: History, graph: JobGraph, chance: float) -> None:
        """At each look it decides anew with this chance."""
        self._dice, self._history, self._chance = dice, history, chance
        points = shedding_points(graph, bounded=True)
        # A row that is dropped at its source tears what is made of all rows of a key apart.
        self._sources = frozenset() if points.keyed else frozenset(points.sources)
        self._branches = sorted(map(branch_name, points.branches))
        self._bound: set[SourceHead] = set()

    def look(self, instances: Iterable[Instance]) -> bool:
        """Decide on sources among these instances, if the dice say so; return whether it was decided on any."""
        changed = False
        for instance in instances:
            head = instance.head
            if head is None or head.name not in self._sources or head.ended:
                continue
            waits = head in self._bound and not head.unread()
            if self._dice.chance(_SOON if waits else self._chance):
                self._admit(head)
                instance.on_change()
                changed = True
        return changed

    def _admit(self, head: SourceHead) -> None:
        plan = {}
        for name, records in sorted(head.behind().items()):
            # Of some partitions all is read, as it is while there is no overload.
            if records and self._dice.chance(0.7):
                count = self._dice.between(1, _MOST_STRETCHES)
                plan[name] = [self._stretch(records) for _ in range(count)]
        words = ", ".join(f"{name}: {_words(stretches)}" for name, stretches in plan.items())
        self._history.event(f"of {head.name} is admitted {words or 'all'}")
        head.admit(plan)
        if plan:
            self._bound.add(head)
        else:
            self._bound.discard(head)

    def _stretch(self, records: int) -> Admission:
        length = self._dice.between(1, records)
        if self._dice.chance(0.3):
            return Admission(length, is_kept=False)
        return Admission(length, True, tuple(name for name in self._branches if self._dice.chance(0.3)))


def _words(stretches: Sequence[Admission]) -> str:
    """Return stretches in short: how many are read, and in brackets how many are dropped."""
    return " ".join(str(each.records) if each.is_kept else f"[{each.records}]" for each in stretches)
