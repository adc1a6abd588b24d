"""Turns of policies that size one job: after an action all of them wait, and who has waited longest goes first. Pure.

One that looks often would else act each time before the window of one that looks seldom is over. Called by
`control_loop`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from penstock.scheduler.loop_state import LoopState

ROUNDING_S = 1e-9


@dataclass(frozen=True, slots=True)
class Turns:
    """Policies that take turns, with the seconds between two looks of each."""

    every_s: Mapping[str, float]

    def first(self, name: str, now_s: float, state: LoopState) -> str:
        """Return why a policy lets another one go first, "" if it need not.

        Who has missed a look and does not look any more, as it does not know enough, is not waited for.
        """
        since_s = state.waits_s.get(name, now_s)
        longer = {
            other: waits_s
            for other, waits_s in state.waits_s.items()
            if other != name and waits_s < since_s and self._looks(other, now_s, state)
        }
        if not longer:
            return ""
        other = min(longer, key=lambda each: (longer[each], each))
        return f"{other} goes first, which has waited for {now_s - longer[other]:.3g} s"

    def _looks(self, name: str, now_s: float, state: LoopState) -> bool:
        every_s = self.every_s.get(name)
        return every_s is not None and now_s <= state.due_s[name] + every_s + ROUNDING_S


def waiting(state: LoopState, name: str, now_s: float) -> LoopState:
    """Return the memory after a policy could not decide: it waits since it first could not.

    Nobody waits for the end of an action of their own.
    """
    if any(action.policy == name for action in state.in_flight):
        return state
    return replace(state, waits_s={name: now_s, **state.waits_s})


def over(state: LoopState, names: Collection[str]) -> LoopState:
    """Return the memory after these policies have had their turns, whatever they decided."""
    return replace(state, waits_s={name: at_s for name, at_s in state.waits_s.items() if name not in names})
