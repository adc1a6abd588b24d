"""When a scaler may decide for an application: whole windows, at intervals, after a warm-up (DS2, section 4.3).

Called by the policies that scale, which remember a `Turn` for every application.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats
from penstock.model.snapshot import ClusterSnapshot

ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class Turn:
    """What was done for an application: when it was last evaluated and acted on, evaluations since it warmed up."""

    evaluated_s: float = float("-inf")
    acted_s: float = float("-inf")
    evaluations: int = 0


Turns = Mapping[str, Turn]
"""By the application's name."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a scaler decides: hand it snapshots whose window is ``interval_s`` long.

    A window that began within ``warm_up_s`` of an action, its own or another's, is not looked at. From the
    ``activation``-th evaluation after a warm-up on it may act (evaluations, whether or not they agree).
    """

    interval_s: float = 10.0
    warm_up_s: float = 20.0
    activation: int = 1

    def waiting(self, snapshot: ClusterSnapshot, turns: Turns, settled_s: Floats) -> list[str | None]:
        """Return, for every application, why it must wait, or None; ``settled_s`` is by task."""
        settled = np.full(len(snapshot.applications), np.inf)
        np.fmin.at(settled, snapshot.tasks.application, settled_s)
        names = snapshot.applications.name
        return [
            self._waits(snapshot, turns.get(name, Turn()), since) for name, since in zip(names, settled, strict=True)
        ]

    def _waits(self, snapshot: ClusterSnapshot, turn: Turn, settled_s: float) -> str | None:
        if snapshot.time_s - turn.evaluated_s < self.interval_s - ROUNDING_S:
            return f"the interval of {self.interval_s:g} s is not over"
        if min(settled_s, snapshot.time_s - turn.acted_s) - snapshot.window_s < self.warm_up_s - ROUNDING_S:
            return f"within the warm-up of {self.warm_up_s:g} s"
        return None

    def evaluated(self, snapshot: ClusterSnapshot, turns: Turns, due: Sequence[bool]) -> Turns:
        """Return the turns with one more evaluation of the applications that were due."""
        return {
            name: _evaluated(turns.get(name, Turn()), snapshot.time_s) if is_due else turns.get(name, Turn())
            for name, is_due in zip(snapshot.applications.name, due, strict=True)
        }

    def is_active(self, turn: Turn) -> bool:
        """Say whether an application that was evaluated may be acted on."""
        return turn.evaluations >= self.activation


def acted(turns: Turns, names: Sequence[str], time_s: float) -> Turns:
    """Return the turns after an action on the applications of these names."""
    return {**turns, **{name: Turn(time_s, time_s, 0) for name in names}}


def _evaluated(turn: Turn, time_s: float) -> Turn:
    return Turn(time_s, turn.acted_s, turn.evaluations + 1)
