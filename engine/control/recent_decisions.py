"""The last decisions of the controllers of a job that wanted something done; what they log, in few words."""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from penstock.model.recent_decision import RecentDecision
from penstock.model.scaling_status import ScalingStatus
from penstock.model.shedding_status import SheddingStatus

KEPT = 3
"""So many of each policy are kept."""

NAMED = 4
"""So many instances are named that were placed together."""


class RecentDecisions:
    """Those of one job, over all its plans. One thread notes them, `last` may be called from any."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_policy: dict[str, deque[tuple[int, RecentDecision]]] = {}

    def last(self, now_ns: int) -> tuple[RecentDecision, ...]:
        """Return them, the oldest first."""
        every = [item for own in tuple(self._by_policy.values()) for item in tuple(own)]
        every.sort(key=itemgetter(0))
        return tuple(replace(decision, ago_s=(now_ns - at_ns) / 1e9) for at_ns, decision in every)

    def placed(self, now_ns: int, policy: str, places: Mapping[str, str], why: str) -> None:
        """Note where instances begin, by their names."""
        if not places:
            return
        named = [f"{name} at {place}" for name, place in sorted(places.items())]
        more = [f"and {len(named) - NAMED} more"] if len(named) > NAMED else []
        self._note(now_ns, RecentDecision(policy, ", ".join(named[:NAMED] + more), why))

    def scaled(self, now_ns: int, status: ScalingStatus | None) -> None:
        """Note the last decision of a scaler, unless it wanted nothing; the same once more: what became of it."""
        if status is None:
            return
        what, withheld = status.what(), f"withheld: {status.withheld}" if status.withheld else ""
        outcome = "; ".join(filter(None, (status.outcome, withheld)))
        if what or outcome:
            self._note(now_ns, RecentDecision(status.scale, what or "no more", status.reason, outcome))

    def shed(self, now_ns: int, status: SheddingStatus) -> None:
        """Note keep rates, unless they are as before."""
        if status.sources or status.branches or status.shed in self._by_policy:
            outcome = "applied" if status.applied else "recommended"
            self._note(now_ns, RecentDecision(status.shed, f"keep {status.rates()}", status.reason, outcome))

    def moved(self, now_ns: int, policy: str, said: Mapping[str, Any], why: str) -> None:
        """Note moves that who sheds has begun, or would have; ``said`` is what the log says of its cycle."""
        expected = said.get("moves", {}).get("expected", ())
        if expected:
            what = ", ".join(f"{item['subject']} {item['figure']}" for item in expected)
            self._note(now_ns, RecentDecision(policy, what, why), "moves")

    def _note(self, now_ns: int, decision: RecentDecision, kind: str = "") -> None:
        own = self._by_policy.setdefault(decision.policy + kind, deque(maxlen=KEPT))
        if own and (own[-1][1].what, own[-1][1].why) == (decision.what, decision.why):
            own[-1] = own[-1][0], decision
        else:
            own.append((now_ns, decision))
