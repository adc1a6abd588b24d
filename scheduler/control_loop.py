"""The one loop over all policies of a job: who decides when, and what of it may be done (docs/design/controllers.md 7).

Pure: snapshots and the loop's memory in, decisions and a memory out. The shell around it makes a snapshot for each
policy that is due, carries out what is allowed, and says when an action has ended (`loop_state.ended`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.model.plan import Cause, Decision, NoChange, RescalePlan, ShedPlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_effects import Change, Figures, expectations, observed, parts_of
from penstock.scheduler.guarded import Guarded
from penstock.scheduler.loop_events import has_seen, settled_at_once, shed_applications, with_losses, with_starts
from penstock.scheduler.loop_state import (
    WITHOUT_EFFECT,
    Action,
    Effect,
    LoopDecision,
    LoopState,
    Withheld,
    with_ages,
    with_refusals,
)
from penstock.scheduler.ownership import Level, Resource, Role, is_empty, owned_part, owners_of
from penstock.scheduler.plausible_readings import clock_fault, plausible_snapshot
from penstock.scheduler.turns import Turns, over, waiting

FRUITLESS = 32
"""So many changes without effect are remembered, the last."""

ALL = frozenset(Resource)


@dataclass(frozen=True, slots=True)
class Steering:
    """A policy of a loop: its name, what it may decide, and the seconds between two decisions.

    One that does not ``act`` recommends, also where the loop acts.
    """

    name: str
    policy: Guarded[Any]
    role: Role
    every_s: float
    acts: bool = True

    def __post_init__(self) -> None:
        if not self.every_s > 0:
            raise ValueError(f"{self.name!r} decides every {self.every_s} s: that is no time")


@dataclass(frozen=True, slots=True)
class ControlLoop:
    """Policies that decide together.

    ``acts``: decisions are carried out, where ``actuators`` has what they change; otherwise they are recommendations.
    After its start, the first rows that come to it, or an action, an application is left alone for ``cool_down_s``,
    unless a machine is lost; sizes are decided on windows that begin after that. The effect of an action is looked at
    then, and ``looked_at_s`` after it at the earliest. Shedding for more than
    ``sustained_cycles`` in a row lets whoever sizes tasks or applications decide at once; it adds no rate. Of several
    who size, the one that has waited longest goes first. ``is_told_losses``: whoever hears that a machine is lost calls
    `after_loss`; else one that was silent for too long is lost.
    """

    policies: tuple[Steering, ...]
    acts: bool = False
    actuators: frozenset[Resource] = ALL
    cool_down_s: float = 30.0
    looked_at_s: float = 0.0
    sustained_cycles: int = 3
    is_told_losses: bool = False

    def __post_init__(self) -> None:
        """Refuse policies that would undo each other's actions.

        Raises:
            TwoOwnersError: two own the same resource.
        """
        owners_of({item.name: item.role for item in self.policies})

    def start(self, now_s: float) -> LoopState:
        """Return the memory before the first tick; each policy is due after its own time."""
        return LoopState(
            {item.name: item.policy.start() for item in self.policies},
            {item.name: now_s + item.every_s for item in self.policies},
        )

    def due(self, state: LoopState, now_s: float) -> tuple[str, ...]:
        """Return the policies that need a snapshot, those that reach further first."""
        return tuple(item.name for item in self._ranked() if now_s >= state.due_s[item.name] - 1e-9)

    def tick(
        self, snapshots: Mapping[str, ClusterSnapshot], now_s: float, state: LoopState
    ) -> tuple[tuple[LoopDecision, ...], tuple[Effect, ...], LoopState]:
        """Return what due policies decide on their snapshots, the effects of earlier actions, and the memory."""
        decisions: list[LoopDecision] = []
        effects: list[Effect] = []
        for item in self._ranked():
            snapshot = snapshots.get(item.name)
            if snapshot is None:
                continue
            state = replace(state, due_s={**state.due_s, item.name: now_s + item.every_s})
            readings = snapshot
            if not (fault := clock_fault(snapshot, None)):
                readings = plausible_snapshot(snapshot, None, item.policy.limits.lost_after_s)
                state = with_starts(state, readings)
                if not self.is_told_losses:
                    state, lost = with_losses(state, readings, item.policy.limits.lost_after_s)
                    state = self._at_once(state, now_s) if lost else state
                state, seen = self._observed(state, readings, item.name)
                effects += seen
                if item.role.level >= Level.SIZE and (
                    self._all_wait(state, readings) or self.goes_first(item.name, now_s, state)
                ):
                    # It decides nothing: it would remember what is not done.
                    state = waiting(state, item.name, now_s)
                    continue
            prepared = self.prepared(item.name, snapshot, state)
            decided, memory = item.policy.decide(prepared, state.memories[item.name])
            state = replace(state, memories={**state.memories, item.name: memory})
            if fault:
                # Nothing can be told of it, not even when it was.
                decisions.append(LoopDecision(item.name, prepared, decided, NoChange(fault, cause=Cause.NOT_MEASURED)))
                continue
            result, state = self._allowed(item, prepared, decided, now_s, state)
            decisions.append(result)
        return tuple(decisions), tuple(effects), state

    def prepared(self, name: str, snapshot: ClusterSnapshot, state: LoopState) -> ClusterSnapshot:
        """Return a snapshot as a policy is to see it: with ages since actions, and what was withheld of its last."""
        return with_refusals(with_ages(snapshot, state.touched_s), state.refused.get(name, ()))

    def goes_first(self, name: str, now_s: float, state: LoopState) -> str:
        """Return which policy that sizes a policy that is due lets go first, and why; "" if it need not."""
        every_s = {item.name: item.every_s for item in self.policies if self._takes_turns(item)}
        return Turns(every_s).first(name, now_s, state) if name in every_s else ""

    def judge(
        self, name: str, prepared: ClusterSnapshot, decided: Decision, now_s: float, state: LoopState
    ) -> tuple[LoopDecision, tuple[Effect, ...], LoopState]:
        """Return what `tick` does of a decision that the caller has let a policy make on a prepared snapshot."""
        item = self._item(name)
        effects: Sequence[Effect] = ()
        if state.watched or any(of not in state.fed for of in prepared.applications.name):
            readings = plausible_snapshot(prepared, None, item.policy.limits.lost_after_s)
            state, effects = self._observed(with_starts(state, readings), readings, name)
        result, state = self._allowed(item, prepared, decided, now_s, state)
        return result, tuple(effects), state

    def _allowed(
        self, item: Steering, prepared: ClusterSnapshot, decided: Decision, now_s: float, state: LoopState
    ) -> tuple[LoopDecision, LoopState]:
        owns = owners_of({each.name: each.role for each in self.policies})[item.name]
        result = self._limited(item, prepared, decided, owns, state)
        state = replace(state, refused={**state.refused, item.name: result.withheld})
        state = self._begun(self._moves_waiting(state, decided, now_s), result, now_s)
        if item.role.level >= Level.SIZE:
            state = over(replace(state, sized_s=now_s), {item.name})
        if Resource.KEEP_RATES in owns and has_seen(decided):
            state = self.after_shedding(state, shed_applications(prepared, decided), prepared, now_s)
        return result, state

    def after_loss(self, state: LoopState, applications: Collection[str], now_s: float) -> LoopState:
        """Return the memory after a machine was lost that these applications had instances on; sizes are due."""
        return self._at_once(settled_at_once(state, applications), now_s)

    def after_shedding(
        self, state: LoopState, shed: frozenset[str], snapshot: ClusterSnapshot, now_s: float
    ) -> LoopState:
        """Return the memory after a cycle in which these applications were shed; if it lasts, sizes are due."""
        cycles = {
            name: state.shed_cycles.get(name, 0) + 1 if name in shed else 0 for name in snapshot.applications.name
        }
        if any(count > self.sustained_cycles for count in cycles.values()):
            cycles = {name: 0 if count > self.sustained_cycles else count for name, count in cycles.items()}
            state = self._all_due(state, now_s)
        return replace(state, shed_cycles=cycles)

    def _all_due(self, state: LoopState, now_s: float) -> LoopState:
        sizing = {item.name: now_s for item in self.policies if item.role.level >= Level.SIZE}
        return replace(state, due_s={name: min(at, sizing.get(name, at)) for name, at in state.due_s.items()})

    def _at_once(self, state: LoopState, now_s: float) -> LoopState:
        """Return the memory in which who sizes is due, and nobody has waited."""
        return over(self._all_due(state, now_s), state.waits_s)

    def _ranked(self) -> Sequence[Steering]:
        return sorted(self.policies, key=lambda item: -item.role.level)

    def _moves_waiting(self, state: LoopState, decided: Decision, now_s: float) -> LoopState:
        """Return the memory of whether moves wait for whoever sizes tasks, who goes first and is due then."""
        if not isinstance(decided, ShedPlan) or not any(item.role.level >= Level.SIZE for item in self.policies):
            return state
        if not decided.moves:
            return replace(state, moves_wait_s=None)
        if state.moves_wait_s is not None:
            return state
        return self._all_due(replace(state, moves_wait_s=now_s), now_s)

    def _waits(self, state: LoopState, application: str, now_s: float) -> str:
        """Return why nothing may be done to an application now, "" if something may."""
        if application in state.busy:
            return "an action is in flight"
        left_s = self.cool_down_s - (now_s - state.settled_s.get(application, -np.inf))
        return f"it settles for {left_s:.3g} s more" if left_s > 1e-9 else ""

    def _all_wait(self, state: LoopState, snapshot: ClusterSnapshot) -> bool:
        """Return whether nothing may be done to any application that has tasks here; others are other jobs."""
        began_s = snapshot.time_s - snapshot.window_s
        rows = np.unique(snapshot.tasks.application) if len(snapshot.tasks) else np.arange(len(snapshot.applications))
        names = [snapshot.applications.name[row] for row in rows.tolist()]
        return bool(names) and all(self._waits(state, name, began_s) for name in names)

    def _observed(self, state: LoopState, snapshot: ClusterSnapshot, name: str) -> tuple[LoopState, list[Effect]]:
        """Return the effects of a policy's own actions whose window has begun after they had settled."""
        ripe = [
            action
            for action in state.watched
            if action.policy == name
            and action.ended_s is not None
            and snapshot.time_s - snapshot.window_s >= action.ended_s
            and snapshot.time_s >= action.ended_s + max(self.cool_down_s, self.looked_at_s) - 1e-9
        ]
        if not ripe:
            return state, []
        figures = Figures(snapshot)
        effects = [
            Effect(action, tuple(observed(expected, figures) for expected in action.expectations)) for action in ripe
        ]
        vain = [
            change
            for effect in effects
            for change in effect.action.changes
            if any(f"{expected.subject}/".startswith(f"{change.subject}/") for expected in effect.missing)
        ]
        watched = tuple(action for action in state.watched if action not in ripe)
        return replace(state, watched=watched, fruitless=(*state.fruitless, *vain)[-FRUITLESS:]), effects

    def _limited(
        self,
        item: Steering,
        snapshot: ClusterSnapshot,
        decided: Decision,
        owns: frozenset[Resource],
        state: LoopState,
    ) -> LoopDecision:
        """Return a decision without what is another's, has no actuator, must wait, or was in vain before."""
        allowed, foreign = owned_part(decided, owns, snapshot)
        withheld = [Withheld(item.name, resource, "another policy owns it, or none may") for resource in foreign]
        may_act = self.acts and item.acts
        if may_act:
            allowed, idle = owned_part(allowed, self.actuators, snapshot)
            withheld += [Withheld(item.name, resource, "there is no actuator for it") for resource in idle]
        if is_empty(allowed) or item.role.level is Level.START:
            acts = may_act and (not is_empty(allowed) or isinstance(allowed, ShedPlan))
            return LoopDecision(item.name, snapshot, decided, allowed, tuple(withheld), acts=acts)
        figures = _figures(item, snapshot)
        sizes = item.role.level >= Level.SIZE
        since_s = snapshot.time_s - snapshot.window_s if sizes else snapshot.time_s
        allowed, cut = self._without_refused(allowed, figures, state, since_s)
        withheld += cut
        expected = () if is_empty(allowed) else expectations(allowed, figures)
        acts = may_act and (not is_empty(allowed) or isinstance(allowed, ShedPlan))
        return LoopDecision(item.name, snapshot, decided, allowed, tuple(withheld), expected, acts)

    def _without_refused(
        self, decision: Decision, figures: Figures, state: LoopState, since_s: float
    ) -> tuple[Decision, list[Withheld]]:
        withheld, refused = [], set()
        for (field, place), change in parts_of(decision, figures).items():
            application = change.subject.partition("/")[0]
            why = self._waits(state, application, since_s)
            if not why and field == "moves" and self._sizes_first(state):
                why = "whoever sizes tasks decides first"
            if not why and any(change.is_same(before) for before in state.fruitless):
                why = WITHOUT_EFFECT
            if why:
                refused.add((field, place))
                withheld.append(Withheld(change.subject, change.what, why))
        if not refused:
            return decision, withheld
        kept = {
            field: tuple(part for place, part in enumerate(getattr(decision, field)) if (field, place) not in refused)
            for field in {field for field, _ in refused}
        }
        allowed: Decision = replace(decision, **kept)  # type: ignore[arg-type]
        if isinstance(allowed, RescalePlan) and is_empty(allowed):
            allowed = NoChange(f"{decision.reason}; withheld: {withheld[0].reason}", cause=Cause.NOT_DUE)
        return allowed, withheld

    def _sizes_first(self, state: LoopState) -> bool:
        """Return whether sizes are to be decided on since moves were wanted."""
        sizing = any(item.role.level >= Level.SIZE for item in self.policies)
        return sizing and (state.moves_wait_s is None or state.sized_s < state.moves_wait_s)

    def _begun(self, state: LoopState, result: LoopDecision, now_s: float) -> LoopState:
        """Return the memory with the action that a decision begins; recommendations and routes in place are none."""
        if not result.acts or is_empty(result.allowed) or self._level(result.policy) is Level.START:
            return state
        figures = _figures(self._item(result.policy), result.snapshot)
        changes: tuple[Change, ...] = tuple(parts_of(result.allowed, figures).values())
        action = Action(
            result.policy,
            result.snapshot.number,
            frozenset(change.subject.partition("/")[0] for change in changes),
            frozenset(change.task for change in changes if change.task),
            changes,
            result.expectations,
            now_s,
        )
        return replace(state, in_flight=(*state.in_flight, action))

    def _takes_turns(self, item: Steering) -> bool:
        return self.acts and item.acts and item.role.level >= Level.SIZE

    def _level(self, name: str) -> Level:
        return self._item(name).role.level

    def _item(self, name: str) -> Steering:
        return next(item for item in self.policies if item.name == name)


def _figures(item: Steering, snapshot: ClusterSnapshot) -> Figures:
    """Return the figures by which a policy's decision on a snapshot is judged: what is impossible is none of them."""
    return Figures(plausible_snapshot(snapshot, None, item.policy.limits.lost_after_s))
