"""What every policy would have decided on a recorded job: each sees windows as long as it would have seen. Pure.

Those that shed decide as on a job, where what waits, what is old, and what a row costs are worked out before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, cast

from penstock.engine.control.joined_windows import joined
from penstock.engine.control.lag_maxima import with_lag_maxima
from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.policies import POLICIES
from penstock.engine.control.recorded_windows import on_ticks, on_wholes
from penstock.engine.control.steering import role_of, scaler, steering
from penstock.model.control import SHED, Control, Shed
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.keep_rates import KeepRates
from penstock.model.plan import Cause, Decision, NoChange, ShedPlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.control_loop import Steering
from penstock.scheduler.loop_state import LoopDecision
from penstock.scheduler.ownership import Level, Resource, is_empty

LEAST_LOOKS = 2
"""Who has looked less often has not been seen to leave a job alone."""

WARM_UP_S = 60.0
"""So long after its start a job compiles, fills its caches, and reads what waited."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look of a policy: the window, and what it wants done; ``rates``: the keep rates that follow from it."""

    begin_s: float
    end_s: float
    decision: Decision
    rates: tuple[float, ...] = ()

    @property
    def is_warm(self) -> bool:
        """Whether nothing of the window is of the warm-up."""
        return self.begin_s >= WARM_UP_S

    @property
    def is_measured(self) -> bool:
        """Whether the policy could see what it decides on."""
        return not (isinstance(self.decision, NoChange) and self.decision.cause is Cause.NOT_MEASURED)

    @property
    def is_action(self) -> bool:
        """Whether something would change."""
        if isinstance(self.decision, ShedPlan):
            return bool(self.decision.moves) or any(rate < 1.0 for rate in self.rates)
        return not is_empty(self.decision)


def whole_looks(name: str, wholes: Sequence[ClusterSnapshot], control: Mapping[str, Any]) -> list[Seen]:
    """Return what a policy that sizes whole applications decides on a job as another such saw it, at each look.

    Raises:
        OptionError: there is no such policy.
    """
    return [_seen(each) for each in on_wholes(wholes, _steering(name, control))]


def looks(name: str, ticks: Sequence[ClusterSnapshot], control: Mapping[str, Any]) -> list[Seen]:
    """Return what a policy decides on a job that was seen each second, with ``control`` as options of `Control`.

    Raises:
        OptionError: there is no such policy.
    """
    return [_seen(each) for each in on_ticks(ticks, _steering(name, control))]


def _seen(result: LoopDecision) -> Seen:
    window = result.snapshot
    return Seen(window.time_s - window.window_s, window.time_s, result.allowed)


def shed_looks(name: str, ticks: Sequence[ClusterSnapshot], graph: ExecutionGraph) -> list[Seen]:
    """Return what a policy that sheds decides on a job of this plan that was seen each second, by its cycles.

    Nothing can move. Rates are as they would be if none had been set before.
    """
    # A control names those that come with Penstock, and any other as a class.
    shed = name if name in SHED else POLICIES[name]
    shedding = LoadShedding(graph, Control(shed=cast(Shed, shed)), moves=False)
    seen, pending = list[Seen](), list[ClusterSnapshot]()
    for tick in ticks:
        pending.append(tick)
        if len(pending) < shedding.period_s:
            continue
        window, pending = with_lag_maxima(joined(pending)), []
        cycle = shedding.cycle(window, KeepRates())
        assert cycle is not None
        rates = (*cycle.rates.sources.values(), *cycle.rates.branches.values())
        seen.append(Seen(window.time_s - window.window_s, window.time_s, cycle.decision, rates))
    return seen


def _steering(name: str, control: Mapping[str, Any]) -> Steering:
    if role_of(name).level < Level.SIZE:
        return steering(name, {})
    return scaler(Control(scale=name, **control))


class Verdict(StrEnum):
    """What is to be said of a policy over a steady job."""

    CALM = "calm"
    ACTS = "acts"
    NOT_MEASURED = "not measured"
    NOT_SEEN = "not seen"


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """A policy over a recorded job: how often it looked once it was warm, saw what it needs, and would have acted.

    ``first``: the reason of its first action, "" if there is none.
    """

    policy: str
    every_s: float
    looks: int
    measured: int
    actions: int
    first: str

    @property
    def verdict(self) -> Verdict:
        """Whether it left the job alone, as far as can be said."""
        if self.actions:
            return Verdict.ACTS
        if self.looks < LEAST_LOOKS:
            return Verdict.NOT_SEEN
        return Verdict.CALM if self.measured == self.looks else Verdict.NOT_MEASURED


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded job: what was seen of it each second, what it had and used as a whole, and its plan."""

    ticks: Sequence[ClusterSnapshot]
    wholes: Sequence[ClusterSnapshot]
    graph: ExecutionGraph


def lines(job: Recorded, control: Mapping[str, Any]) -> list[PolicyLine]:
    """Return a line for each policy that there is, by name; their windows begin once the job is warm."""
    warm = replace(job, ticks=[tick for tick in job.ticks if tick.time_s - tick.window_s >= WARM_UP_S])
    return [_line(name, warm, control) for name in sorted(POLICIES)]


def _line(name: str, job: Recorded, control: Mapping[str, Any]) -> PolicyLine:
    owns = role_of(name).owns
    if Resource.KEEP_RATES in owns:
        seen = shed_looks(name, job.ticks, job.graph)
    elif Resource.ALLOCATIONS in owns:
        seen = whole_looks(name, job.wholes, control)
    else:
        seen = looks(name, job.ticks, control)
    warm = [each for each in seen if each.is_warm]
    acting = [each for each in warm if each.is_action]
    return PolicyLine(
        name,
        _steering(name, control).every_s,
        len(warm),
        sum(each.is_measured for each in warm),
        len(acting),
        acting[0].decision.reason if acting else "",
    )
