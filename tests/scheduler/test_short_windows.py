"""Sage in a hurry, as on a job whose load says in seconds what others say in minutes; and floors of a quota."""

from collections.abc import Mapping

import pytest

from penstock.model.plan import ApplicationSize, NoChange, RescalePlan
from penstock.scheduler.limits import PlanLimits
from penstock.scheduler.plan_limits import limited_decision
from penstock.scheduler.sage import Sage
from penstock.scheduler.sage_at_once import SageAtOnce
from tests.scheduler import sage_applications
from tests.scheduler.sage_applications import GB, actions, simulate, snapshot
from tests.scheduler.test_sage import starved


def hurried(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
    """The application that lacks everything, of whose rows a sixtieth waits."""
    figures = starved(number, has)
    return {**figures, "backlog": figures["backlog"] / 60}


def test_with_short_windows_the_same_is_done_in_a_sixtieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = actions(simulate(Sage(), 120, {"a": starved}))
    monkeypatch.setattr(sage_applications, "TICK_S", 1.0)
    assert actions(simulate(Sage(windows=1 / 60), 120, {"a": hurried})) == slow and len(slow) > 4
    # With long windows, that time is too short for anything.
    assert actions(simulate(Sage(), 100, {"a": hurried})) == actions(simulate(SageAtOnce(), 100, {"a": hurried})) == []


def test_at_once_is_as_quick_in_its_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sage_applications, "TICK_S", 1.0)
    done = actions(simulate(SageAtOnce(windows=1 / 60), 120, {"a": hurried}))
    assert {"heap up", "parallelism up"} <= {name for _, name in done} and done[0][0] <= 3


def test_idle_time_before_the_first_row_puts_nothing_before_its_turn() -> None:
    """Rows that come after half an hour of rest use up the cores: that is for cores, though the first of them wait."""

    def woken(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        if number < 30:
            return {"appended": 0.0, "consumed": 0.0, "cpu": 0.1, "busy_threads": 0.1}
        return {"cpu": has["cores"], "appended": 3000.0, "consumed": 1000.0, "backlog": 2e5 * (number - 29)}

    done = actions(simulate(Sage(), 50, {"a": woken}))
    assert next(name for _, name in done if name.endswith("up")) == "CPU up", done


@pytest.mark.parametrize("windows", [0.0, -1.0, float("nan")])
def test_windows_have_a_length(windows: float) -> None:
    with pytest.raises(ValueError, match="windows is above 0"):
        Sage(windows=windows)


def limited(size: ApplicationSize, limits: PlanLimits) -> tuple[ApplicationSize, ...]:
    seen = snapshot(1, {"a": {"cores": 4.0, "heap": 4 * GB, "memory": 8 * GB}, "b": {"cores": 2.0, "memory": GB}})
    decision, _ = limited_decision(RescalePlan("more", applications=(size,)), seen, limits, seen.tasks.is_keyed)
    assert isinstance(decision, RescalePlan | NoChange)
    return decision.applications if isinstance(decision, RescalePlan) else ()


def test_what_rounding_leaves_of_a_quota_is_no_action() -> None:
    assert limited(ApplicationSize(0, cores=6.0), PlanLimits(most_cores=6.0 + 1e-9)) == ()
    assert limited(ApplicationSize(0, cores=6.0), PlanLimits(most_cores=6.5)) == (ApplicationSize(0, cores=4.5),)


def test_a_heap_is_not_made_smaller_than_its_floor() -> None:
    size = ApplicationSize(0, heap_bytes=GB)
    assert limited(size, PlanLimits()) == (size,)
    floor = ApplicationSize(0, heap_bytes=2 * GB)
    assert limited(size, PlanLimits(least_heap_bytes=2 * GB)) == (floor,)
    assert limited(size, PlanLimits(least_heap_bytes=4 * GB)) == ()
