"""What a control loop remembers, in frozen values: actions, effects, refusals, shedding. Used by `control_loop`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.model.plan import Decision
from penstock.model.snapshot import ClusterSnapshot, RefusalColumns
from penstock.scheduler.action_effects import Change, Expectation

WITHOUT_EFFECT = "it was without effect before, and nothing has changed"
"""Why a change is withheld that would do nothing."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action on applications that began at ``began_s``; ``ended_s`` None: it is in flight.

    ``number`` is the snapshot's that it was decided on; ``touched`` has "application/task" of what it changes.
    """

    policy: str
    number: int
    applications: frozenset[str]
    touched: frozenset[str]
    changes: tuple[Change, ...]
    expectations: tuple[Expectation, ...]
    began_s: float
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """An action's expectations, the figures that came of them, and whether enough of each did."""

    action: Action
    observed: tuple[float, ...]

    @property
    def missing(self) -> tuple[Expectation, ...]:
        """The expectations that did not come true."""
        return tuple(
            expected
            for expected, seen in zip(self.action.expectations, self.observed, strict=True)
            if not expected.came(seen)
        )


@dataclass(frozen=True, slots=True)
class Withheld:
    """A part of a decision that was not carried out: of whom, what, and why."""

    subject: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class LoopDecision:
    """A policy's decision on ``snapshot``, the part of it that is to be carried out, and what was withheld.

    ``acts``: a platform is to carry the part out, which is then an action in flight, or sets keep rates.
    """

    policy: str
    snapshot: ClusterSnapshot
    decided: Decision
    allowed: Decision
    withheld: tuple[Withheld, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    acts: bool = False


@dataclass(frozen=True, slots=True)
class LoopState:
    """The memory of a control loop. Times are those of snapshots, in seconds; applications by name.

    ``due_s`` and ``refused`` by policy; ``shed_cycles``: cycles in a row in which an application was shed; ``settled``:
    when its last action ended; ``fed``: those to which rows have come; ``touched``: when the last action on a task
    ended; ``fruitless``: changes without effect;
    ``sized_s``: when sizes were last decided on; ``moves_wait_s``: since when moves wait for that; ``waits_s``: since
    when a policy that sizes could not decide, by policy.
    """

    memories: Mapping[str, Any]
    due_s: Mapping[str, float]
    refused: Mapping[str, tuple[Withheld, ...]] = field(default_factory=dict)
    shed_cycles: Mapping[str, int] = field(default_factory=dict)
    in_flight: tuple[Action, ...] = ()
    watched: tuple[Action, ...] = ()
    settled_s: Mapping[str, float] = field(default_factory=dict)
    fed: frozenset[str] = frozenset()
    touched_s: Mapping[str, float] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    sized_s: float = float("-inf")
    moves_wait_s: float | None = None
    waits_s: Mapping[str, float] = field(default_factory=dict)
    fruitless: tuple[Change, ...] = ()

    @property
    def busy(self) -> frozenset[str]:
        """The applications with an action in flight."""
        return frozenset().union(*(action.applications for action in self.in_flight))


def ended(state: LoopState, applications: frozenset[str], now_s: float, *, is_done: bool) -> LoopState:
    """Return the memory after the action in flight on these applications has ended, done or failed.

    Ages of the tasks that it touched start anew; one that failed has no effect to be seen.
    """
    over = [action for action in state.in_flight if action.applications & applications]
    if not over:
        return state
    done = tuple(replace(action, ended_s=now_s) for action in over)
    return replace(
        state,
        in_flight=tuple(action for action in state.in_flight if action not in over),
        watched=(*state.watched, *done) if is_done else state.watched,
        settled_s={**state.settled_s, **{name: now_s for action in done for name in action.applications}},
        touched_s={**state.touched_s, **{name: now_s for action in done for name in action.touched}},
    )


def with_ages(snapshot: ClusterSnapshot, touched_s: Mapping[str, float]) -> ClusterSnapshot:
    """Return a snapshot in which nothing is older than the last action that touched it."""
    if not touched_s:
        return snapshot
    names = [f"{of}/{task}" for of, task in snapshot.task_names()]
    since = np.array([snapshot.time_s - touched_s.get(name, -np.inf) for name in names])[snapshot.instances.task]
    known = snapshot.instances.settled_s
    settled = np.maximum(since if known is None else np.fmin(known, since), 0.0)
    return replace(
        snapshot, instances=replace(snapshot.instances, settled_s=np.where(np.isinf(settled), np.nan, settled))
    )


def with_refusals(snapshot: ClusterSnapshot, refused: tuple[Withheld, ...]) -> ClusterSnapshot:
    """Return a snapshot that lists what was withheld of the policy's last decision."""
    if not refused:
        return snapshot
    return replace(
        snapshot,
        refusals=RefusalColumns(
            tuple(item.subject for item in refused),
            tuple(item.what for item in refused),
            tuple(item.reason for item in refused),
        ),
    )
