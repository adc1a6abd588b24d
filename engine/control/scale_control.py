"""The scaler of a running job in its head: it looks once per its interval, and recommends to the action log.

The shell of `scheduler.control_loop` around a job. Nothing changes parallelism or memory of a job that runs yet.
"""

from collections.abc import Mapping
from typing import Any

from penstock.engine.control.decision_log import DecisionLog
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.control.part_reading import PartReading
from penstock.engine.control.reading_book import ReadingBook
from penstock.engine.control.steering import scaler
from penstock.model.control import Control
from penstock.model.plan import Decision
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.control_loop import ControlLoop
from penstock.scheduler.loop_events import shed_applications
from penstock.scheduler.loop_state import LoopDecision

Places = tuple[Any, str, Mapping[str, str], Mapping[str, float]]
"""Task managers, the caller, the places of instances, and how long ago each was heard, as `ReadingBook` takes them."""


class ScaleControl:
    """One scaler over one run; it recommends."""

    def __init__(self, control: Control, book: ReadingBook, log: DecisionLog) -> None:
        """Begin with nothing seen; ``book`` is its own, with windows as long as its interval.

        Raises:
            OptionError: there is no such policy or parameter, it does not scale, or decides on what another one does.
        """
        item = scaler(control)
        self.name = item.name
        self._policy = item.policy
        self._loop = ControlLoop((item,), acts=False)
        self._book, self._log = book, log
        self._began_ns: int | None = None
        self._state = self._loop.start(0.0)

    def tick(
        self,
        places: Places,
        latest: Mapping[str, tuple[MachineReading, PartReading | None, int]],
        now_ns: int,
    ) -> None:
        """Let the scaler see the job if it is time, and keep what it decides."""
        if self._began_ns is None:
            self._log.begin(self.name, self._policy)
            self._began_ns = now_ns
            self._look(places, latest, now_ns)
            return
        now_s = (now_ns - self._began_ns) / 1e9
        if not self._loop.due(self._state, now_s):
            return
        snapshot = self._look(places, latest, now_ns)
        decisions, _, self._state = self._loop.tick({self.name: snapshot}, now_s, self._state)
        for decision in decisions:
            self._log.add(decision.snapshot, self.name, decision.decided)
            if decision.expectations or decision.withheld:
                self._log.result(decision.snapshot, self.name, "recommended", detail_of(decision))

    def saw_cycle(self, snapshot: ClusterSnapshot, decision: Decision, now_ns: int) -> None:
        """Take in a cycle of load shedding: if it sheds for long, the scaler is due."""
        if self._began_ns is not None:
            now_s = (now_ns - self._began_ns) / 1e9
            shed = shed_applications(snapshot, decision)
            self._state = self._loop.after_shedding(self._state, shed, snapshot, now_s)

    def forget(self, manager: str) -> None:
        """A task manager is lost."""
        self._book.forget(manager)

    def _look(
        self,
        places: Places,
        latest: Mapping[str, tuple[MachineReading, PartReading | None, int]],
        now_ns: int,
    ) -> ClusterSnapshot:
        for manager, reading in latest.items():
            self._book.hear(manager, *reading)
        return self._book.snapshot(*places, now_ns)


def detail_of(decision: LoopDecision) -> dict[str, Any]:
    """Return what a log keeps of a decision beside itself: what is expected of it, and what was withheld and why."""
    return {
        "expected": [
            {"subject": item.subject, "figure": item.figure, "before": item.before, "after": item.expected}
            for item in decision.expectations
        ],
        "withheld": [{"subject": item.subject, "what": item.what, "why": item.reason} for item in decision.withheld],
    }
