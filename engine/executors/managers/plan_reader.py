"""The way in which a task manager comes to its plan, and to sinks as they are now."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.engine.executors.managers.plan_parcel import unpack_plan, with_sinks
from penstock.engine.jobs.attempt import JobPlan


@dataclass(frozen=True, slots=True)
class PlanReader:
    """``read`` returns a plan that was packed, ``bind`` a plan with sinks that were."""

    read: Callable[[bytes], JobPlan] = unpack_plan
    bind: Callable[[JobPlan, bytes], JobPlan] = with_sinks
