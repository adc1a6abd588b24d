"""Policies as a running job has them, for the drills: which pairs there are, their parameters, and the loop over them.

Pairs and roles come from the table of owners, so that a new policy is drilled like the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from penstock.engine.control.chosen_policies import who_places, who_sheds
from penstock.engine.control.job_loop import JobLoop
from penstock.engine.control.steering import EVERY_S, OWNS, role_of, scalers
from penstock.model.control import NOBODY, Control
from penstock.model.plan import Cause, Decision, NoChange, ShedPlan
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.control_loop import ControlLoop, Steering
from penstock.scheduler.ownership import Level, Resource, TwoOwnersError, owners_of
from penstock.shedding.keeping_up import is_idle, keeps_up
from penstock.shedding.source_backlog import BacklogRule, counted_backlog
from penstock.shedding.useful_time import with_useful_time

ACTION_S = 5.0
"""No action takes longer."""
CORES, MEMORY = 8.0, "24GB"
"""The quota of a drilled job: what its machines have."""

SECONDS: Mapping[str, Mapping[str, Any]] = {
    "autoscaler": {
        "pace.interval_s": 20.0, "pace.warm_up_s": 10.0, "restart_s": 2.0, "catch_up_s": 60.0,
        "scale_down_wait_s": 60.0,
    },
    "justin": {"ds2.pace.interval_s": 20.0, "ds2.pace.warm_up_s": 10.0},
    "memory-choice": {"ds2.pace.interval_s": 20.0, "ds2.pace.warm_up_s": 10.0},
    "sage": {"windows": 0.1},
    "sage-at-once": {"windows": 0.1},
}  # fmt: skip
"""Times of scalers that wait for minutes or hours, in seconds; all else is as a job has it."""


GROWS_S: Mapping[str, float] = {"sage": 90.0, "sage-at-once": 90.0}
SHRINKS_S: Mapping[str, float] = {"autoscaler": 60.0, "flink-er": 60.0, "sage": 360.0, "sage-at-once": 360.0}
"""Windows of evidence, after which a scaler acts at one of its next looks; of Sage that for cores and that for threads
together, and two for less, as the first may have the load before in it."""

WITHOUT_DRILL: Mapping[str, str] = {
    "sic": "task managers drop what waits there four times a second, of which the simulated cluster has nothing; "
    "tests/engine/control/test_shed_need.py holds that a scaler is told",
    "both": "the rates are those of qod, which is drilled, and the drops beside them are as with sic",
}
"""Ways to shed beside a scaler that no drill has, and why."""


def owns(name: str, resource: Resource) -> bool:
    """Return whether a policy always owns a resource."""
    return resource in role_of(name).owns


def sizes(name: str) -> bool:
    """Return whether a policy sizes tasks or applications."""
    return role_of(name).level >= Level.SIZE


KEEPS = tuple(name for name in sorted(OWNS) if owns(name, Resource.KEEP_RATES))
PLACES = tuple(name for name in sorted(OWNS) if owns(name, Resource.STARTS))
SCALERS = tuple(name for name in sorted(OWNS) if sizes(name))
SIZES_ALL = tuple(name for name in SCALERS if owns(name, Resource.ALLOCATIONS))


def is_legal(*names: str) -> bool:
    """Return whether these policies may decide together."""
    try:
        owners_of({name: role_of(name) for name in names})
    except TwoOwnersError:
        return False
    return True


def legal_pairs() -> tuple[tuple[str, str], ...]:
    """Return all pairs of policies by name that may decide together."""
    return tuple(pair for pair in combinations(sorted(OWNS), 2) if is_legal(*pair))


def representatives(shape: str) -> tuple[tuple[str, str], ...]:
    """Return some legal pairs in which each policy is; others for each shape."""
    pairs, found, known = list(legal_pairs()), list[tuple[str, str]](), set[str]()
    begin = sum(map(ord, shape)) % len(pairs)
    for most_known in (0, 1):
        for pair in (*pairs[begin:], *pairs[:begin]):
            # Who places looks each second, and simulating that takes longest.
            if len(known & {*pair}) <= most_known and not (most_known and {*pair} & {*PLACES}):
                found.append(pair)
                known |= {*pair}
    return tuple(found)


@dataclass(frozen=True, slots=True)
class JobShedding(Policy[Any]):
    """Who sheds, as a job of one source lets it (`engine.control.load_shedding`).

    The source is whole while what waited before the start does, unless that may be shed, and no rate is lowered while
    nothing waits, or a machine has time left. The memory is that of the policy, what is old yet, and the plan in force.
    """

    policy: Policy[Any]
    sheds_backlog: bool = False

    def start(self) -> Any:
        """Return the memory before the first snapshot."""
        return self.policy.start(), None, None

    def decide(self, snapshot: ClusterSnapshot, memory: Any) -> tuple[Decision, Any]:
        """Return the policy's decision within these bounds."""
        own, old, plan = memory
        seen = with_useful_time(snapshot)
        shed = frozenset() if plan is None else frozenset(snapshot.tasks.name[task] for task in plan.source_keep)
        backlog = counted_backlog(seen, BacklogRule(self.sheds_backlog), old, shed)
        decision, own = self.policy.decide(backlog.snapshot, own)
        if isinstance(decision, ShedPlan):
            before = replace(decision, source_keep={}, edge_keep={}, desired_accuracy=(1.0,) * len(snapshot.queries))
            if backlog.exempt:
                decision = before
            elif (keeps_up(seen) or is_idle(seen)) and not _is_less(plan := plan or before, decision):
                decision = replace(decision, **{name: getattr(plan, name) for name in RATES})
            plan = decision
        elif isinstance(decision, NoChange) and decision.cause is Cause.DECIDED:
            plan = None
        return decision, (own, backlog.old, plan)


RATES = ("source_keep", "edge_keep", "desired_accuracy")


def _is_less(plan: ShedPlan, than: ShedPlan) -> bool:
    return min(plan.desired_accuracy) <= min(than.desired_accuracy)


@dataclass(frozen=True)
class Options:
    """What a drill changes of a job: parameters by policy, and of the loop; rows from before the start may be shed."""

    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    loop: Mapping[str, Any] = field(default_factory=dict)
    sheds_backlog: bool = False


AS_IT_IS = Options()


def job_loop(names: Sequence[str], options: Options = AS_IT_IS) -> ControlLoop:
    """Return the loop of a job under these policies, which act.

    Raises:
        OptionError: they may not decide together, or there is no such parameter.
    """
    scale = tuple(name for name in names if sizes(name))
    shed = next((name for name in names if name in KEEPS), NOBODY)
    given = {name: {**SECONDS.get(name, {}), **options.parameters.get(name, {})} for name in names}
    quota: dict[str, Any] = {"cores": CORES, "memory": MEMORY} if scale else {}
    control = Control(shed=shed, scale=scale, mode="act", parameters=given, **quota)
    items = list(scalers(control))
    if shed != NOBODY:
        guarded = who_sheds(control, shed, moves=True)
        as_job = replace(guarded, policy=JobShedding(guarded.policy, options.sheds_backlog))
        items.append(Steering(shed, as_job, role_of(shed), float(control.period_s)))
    items += [
        Steering(name, who_places(control), role_of(name), EVERY_S[Level.START]) for name in names if name in PLACES
    ]
    # Nobody tells the loop of a machine that is lost but its silence.
    as_here = {"actuators": frozenset(Resource), "is_told_losses": False, **options.loop}
    return replace(JobLoop(tuple(items), None).loop, **as_here)


def due_s(name: str, names: Sequence[str], windows: Mapping[str, float]) -> float:
    """Return within how many seconds a change is answered: by a window, the cool-down, three looks, and the action."""
    loop = job_loop(names)
    (every_s,) = (item.every_s for item in loop.policies if item.name == name)
    return windows.get(name, 0.0) + loop.cool_down_s + 3 * every_s + ACTION_S


def owner_of(resource: Resource, names: Sequence[str]) -> str | None:
    """Return which of these policies owns a resource, None: none does."""
    owners = owners_of({name: role_of(name) for name in names})
    return next((name for name in names if resource in owners[name]), None)
