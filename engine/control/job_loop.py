"""The control loop of a job's head and what it remembers: shared by who scales the job, and who sheds and moves."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from penstock.engine.control.policies import parameters_of
from penstock.model.plan import Decision
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.control_loop import ControlLoop, Steering
from penstock.scheduler.guarded import Guarded, over_another_plan
from penstock.scheduler.loop_state import Effect, LoopDecision, LoopState, ended
from penstock.scheduler.ownership import Level, Resource

ACTUATORS = frozenset(
    {
        Resource.PARALLELISM,
        Resource.TASK_MEMORY,
        Resource.BUCKETS,
        Resource.ROUTES,
        Resource.MOVES,
        Resource.KEEP_RATES,
        Resource.ALLOCATIONS,
    }
)
"""What a running job can change."""

COOL_DOWN_S = 30.0
"""So long a job is left alone after an action; or for an interval of who sizes whole applications, and waits longer."""

LOOKED_AT_S = 10.0
"""By then task managers that are slow, too, have done and read what an action has changed, and its effect is seen."""


@dataclass(frozen=True, slots=True)
class LoopMemory:
    """What a loop leaves to that of the job's next plan: since when its times count, its state, and its policies."""

    began_ns: int
    state: LoopState
    policies: tuple[Steering, ...]


class JobLoop:
    """One loop over the policies of a job; times are seconds since its first tick."""

    def __init__(self, policies: tuple[Steering, ...], before: LoopMemory | None) -> None:
        """Begin with nothing seen, or go on from when the loop of the plan before began, and with what it remembered.

        Policies that were there with the same parameters go on, too: what they remember is of tasks by their names.
        """
        cool_down_s = min([COOL_DOWN_S, *(item.every_s for item in policies if item.role.level is Level.APPLICATION)])
        self.loop = ControlLoop(
            policies,
            acts=True,
            actuators=ACTUATORS,
            cool_down_s=cool_down_s,
            looked_at_s=LOOKED_AT_S,
            # One that is stuck in a step is silent, too, and not lost; who is lost is a machine no more.
            is_told_losses=True,
        )
        self.state = self.loop.start(0.0)
        self.began_ns: int | None = None
        self.went_on: frozenset[str] = frozenset()
        """The policies that go on with what they remembered over the plan before."""
        if before is not None:
            self.began_ns = before.began_ns
            known = {item.name: item.policy for item in before.policies}
            same = [item.name for item in policies if item.name in known and is_same(item.policy, known[item.name])]
            self.went_on = frozenset(same)
            went_on = {name: over_another_plan(before.state.memories[name]) for name in same}
            self.state = replace(
                before.state,
                memories={**self.state.memories, **went_on},
                due_s={**self.state.due_s, **before.state.due_s},
            )

    @property
    def memory(self) -> LoopMemory | None:
        """What the loop of the next plan goes on with, None: nothing was seen."""
        return None if self.began_ns is None else LoopMemory(self.began_ns, self.state, self.loop.policies)

    def now_s(self, now_ns: int) -> float:
        """Return the time of the loop, which begins with the first call."""
        if self.began_ns is None:
            self.began_ns = now_ns
        return (now_ns - self.began_ns) / 1e9

    def prepared(self, name: str, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Return a snapshot as a policy is to see it; see `ControlLoop.prepared`."""
        return self.loop.prepared(name, snapshot, self.state)

    def judge(
        self, name: str, prepared: ClusterSnapshot, decided: Decision, now_ns: int
    ) -> tuple[LoopDecision, tuple[Effect, ...]]:
        """Return what may be done of a decision that was made on a prepared snapshot; see `ControlLoop.judge`."""
        result, effects, self.state = self.loop.judge(name, prepared, decided, self.now_s(now_ns), self.state)
        return result, effects

    def lose(self, application: str, now_ns: int) -> None:
        """Take in that a task manager is lost on which this application had instances: it is not left alone now."""
        if self.began_ns is not None:
            self.state = self.loop.after_loss(self.state, {application}, self.now_s(now_ns))

    def ended(self, now_ns: int, *, is_done: bool, in_vain: Collection[str] = ()) -> None:
        """Take in that the action in flight has ended; changes of these subjects could not be made as things are."""
        changes = tuple(
            change for action in self.state.in_flight for change in action.changes if change.subject in in_vain
        )
        self.state = ended(self.state, self.state.busy, self.now_s(now_ns), is_done=is_done)
        self.state = replace(self.state, fruitless=(*self.state.fruitless, *changes))


def is_same(one: Guarded[Any], other: Guarded[Any]) -> bool:
    """Return whether two policies are of one class, with the same parameters and limits."""
    return type(one.policy) is type(other.policy) and parameters_of(one) == parameters_of(other)
