"""Sage and remote services: a backlog that one explains is no reason for more threads."""

from collections.abc import Mapping

import numpy as np
import pytest

from penstock.scheduler.sage import Sage
from tests.scheduler.sage_applications import actions, simulate


def test_a_backlog_that_a_service_explains_gets_no_threads() -> None:
    def slow(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        late = max(number - 40, 0)
        return {"latency_ms": 5.0 + late, "backlog": 50.0 * late**2, "consumed": 1000 - 5 * late}

    def loaded(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        late = max(number - 40, 0)
        return {"backlog": 50.0 * late**2, "appended": 1000 + 5 * late}

    assert actions(simulate(Sage(), 70, {"slow": slow})) == []
    assert actions(simulate(Sage(guard="none"), 70, {"slow": slow}))[0][1] == "parallelism up"
    done = actions(simulate(Sage(), 70, {"loaded": loaded}))
    assert done[0][1] == "parallelism up" and 45 <= done[0][0] <= 52


def test_a_service_that_stays_slow_gets_no_threads_until_more_rows_come() -> None:
    """It is slow from tick 40 on; two hours later it is as it was, or more rows come."""

    def uses(until: int, load: float) -> object:
        def slow(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
            late = max(number - 40, 0)
            return {
                "latency_ms": 15.0 if 40 < number <= until else 5.0,
                "backlog": 2e4 * late + 100 * (number % 2),
                "appended": 1000.0 if number <= 160 else load,
            }

        return slow

    def first(until: int, load: float, guard: str = "growth") -> int:
        done = actions(simulate(Sage(guard=guard), 180, {"a": uses(until, load)}))
        return min((number for number, name in done if name == "parallelism up"), default=-1)

    assert first(180, 1000.0, "none") == 49 and first(180, 1000.0) == -1
    assert 160 < first(180, 1500.0) <= 165 and 160 < first(160, 1000.0) <= 175


def test_the_guard_can_be_chosen() -> None:
    """The paper's rule sees a slow service only where the detrended backlog bends with it, not one that stays slow."""

    def bends(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        slow = 5.0 + 5.0 * max(0.0, np.sin(number / 1.5))
        return {"latency_ms": slow, "backlog": 100.0 * number + 10.0 * slow}

    assert actions(simulate(Sage(guard="none", trigger="rising"), 15, {"bends": bends})) == [(9, "parallelism up")]
    assert actions(simulate(Sage(guard="correlation", trigger="rising"), 15, {"bends": bends})) == []

    def stays(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        late = max(number - 40, 0)
        return {"latency_ms": 5.0 + late, "backlog": 50.0 * late**2 + (number % 2), "consumed": 1000 - 5 * late}

    assert actions(simulate(Sage(guard="growth", trigger="rising"), 70, {"stays": stays})) == []
    assert (
        actions(simulate(Sage(guard="correlation", trigger="rising"), 70, {"stays": stays}))[0][1] == "parallelism up"
    )
    with pytest.raises(ValueError, match="guard = 'both' is none of growth, correlation, none"):
        Sage(guard="both")
    with pytest.raises(ValueError, match="trigger = 'both' is none of bound, rising"):
        Sage(trigger="both")
