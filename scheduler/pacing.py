"""The pace of a scaler's decisions: whole windows, at intervals, after a warm-up (DS2, section 4.3).

Called by the scaling policies, which keep a `PaceState` of every application.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.model.columns import Floats
from penstock.model.snapshot import ClusterSnapshot

ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class PaceState:
    """Times of an application's last evaluation and action, and the number of evaluations since its warm-up."""

    evaluated_s: float = float("-inf")
    acted_s: float = float("-inf")
    evaluations: int = 0


PaceStates = Mapping[str, PaceState]
"""By the application's name."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The rhythm of a scaler, whose snapshots have windows of ``interval_s``.

    A window that began within ``warm_up_s`` of an action, its own or another's, is ignored. From the
    ``activation``-th evaluation after a warm-up on it may act (evaluations, whether or not they agree).
    """

    interval_s: float = 10.0
    warm_up_s: float = 20.0
    activation: int = 1

    def wait_reasons(self, snapshot: ClusterSnapshot, states: PaceStates, settled_s: Floats) -> list[str | None]:
        """Return, for every application, the reason why it must wait, or None; ``settled_s`` is by task."""
        names = snapshot.applications.name
        return [
            self._wait_reason(snapshot, states.get(name, PaceState()), since_s)
            for name, since_s in zip(names, _by_application(snapshot, settled_s), strict=True)
        ]

    def after_settling(self, snapshot: ClusterSnapshot, states: PaceStates, settled_s: Floats) -> PaceStates:
        """Return the states without evaluations from before the last action on an application, its own or another's."""
        ages_s = dict(zip(snapshot.applications.name, _by_application(snapshot, settled_s).tolist(), strict=True))
        return {
            name: replace(state, evaluations=0)
            if snapshot.time_s - ages_s.get(name, np.inf) > state.evaluated_s
            else state
            for name, state in states.items()
        }

    def _wait_reason(self, snapshot: ClusterSnapshot, state: PaceState, settled_s: float) -> str | None:
        if snapshot.time_s - state.evaluated_s < self.interval_s - ROUNDING_S:
            return f"the interval of {self.interval_s:g} s is not over"
        if min(settled_s, snapshot.time_s - state.acted_s) - snapshot.window_s < self.warm_up_s - ROUNDING_S:
            return f"within the warm-up of {self.warm_up_s:g} s"
        return None

    def after_evaluation(self, snapshot: ClusterSnapshot, states: PaceStates, due: Sequence[bool]) -> PaceStates:
        """Return the states with one more evaluation of the due applications."""
        return {
            name: _evaluated(states.get(name, PaceState()), snapshot.time_s)
            if is_due
            else states.get(name, PaceState())
            for name, is_due in zip(snapshot.applications.name, due, strict=True)
        }

    def is_active(self, state: PaceState) -> bool:
        """Return whether an evaluated application may be acted on."""
        return state.evaluations >= self.activation


def after_action(states: PaceStates, names: Sequence[str], time_s: float) -> PaceStates:
    """Return the states after an action on the applications of these names."""
    return {**states, **{name: PaceState(time_s, time_s, 0) for name in names}}


def _by_application(snapshot: ClusterSnapshot, settled_s: Floats) -> Floats:
    """Return the time since the last action on each application; ``settled_s`` is by task."""
    settled = np.full(len(snapshot.applications), np.inf)
    np.fmin.at(settled, snapshot.tasks.application, settled_s)
    return settled


def _evaluated(state: PaceState, time_s: float) -> PaceState:
    return PaceState(time_s, state.acted_s, state.evaluations + 1)
