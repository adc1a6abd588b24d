"""The cores of a job shared out among its task managers, whose work differs."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.jobs.running_cores import FLOOR, RunningCores, core_shares

SECOND_NS = 1_000_000_000
Needs = Sequence[float]


class Loops:
    """Task managers that need so much of a core, and rest where they may not use it."""

    def __init__(self, cores: float) -> None:
        self.running = RunningCores()
        self.running.wanted = cores
        self.second = 0
        self.counted: dict[str, tuple[float, float]] = {}

    def live(self, needs: Mapping[str, float], seconds: int, waste: float = 0.0) -> Mapping[str, float]:
        """Return what they may use at last; ``waste``: of its share one that rests does not use so much."""
        for _ in range(seconds):
            self.second += 1
            for name, share in self.running.shares(needs).items():
                cpu_s, rest_s = self.counted.get(name, (0.0, 0.0))
                used = min(needs[name], share * (1 - waste if share < needs[name] else 1))
                self.hear(name, cpu_s + used, rest_s + max(0.0, needs[name] - share))
        return self.running.shares(needs)

    def hear(self, name: str, cpu_s: float, rest_s: float) -> None:
        self.counted[name] = cpu_s, rest_s
        self.running.hear(name, int(cpu_s * 1e9), int(rest_s * 1e9), self.second * SECOND_NS)


def named(needs: Needs) -> dict[str, float]:
    return {f"tm-{number}": need for number, need in enumerate(needs)}


@pytest.mark.parametrize("waste", [0.0, 0.1])
def test_who_has_more_to_do_gets_what_others_do_not_use(waste: float) -> None:
    loops = Loops(0.32)
    assert loops.live({"tm-0": 0.17, "tm-1": 0.12}, 1) == {"tm-0": 0.16, "tm-1": 0.16}, "of which the first would rest"
    shares = loops.live({"tm-0": 0.17, "tm-1": 0.12}, 40, waste)
    assert shares["tm-0"] > 0.17 and shares["tm-1"] > 0.12


@settings(max_examples=200)
@given(st.lists(st.floats(0.0, 0.8), min_size=1, max_size=8), st.floats(0.05, 6.0), st.floats(1.25, 3.0))
def test_all_have_what_they_need_where_there_is_enough_and_never_more_than_there_is(
    needs: Needs, cores: float, ample: float
) -> None:
    enough = max(ample * sum(needs), 0.05)
    for given_cores in (cores, enough):
        loops = Loops(given_cores)
        for _ in range(15):
            shares = loops.live(named(needs), 10)
            assert sum(shares.values()) == pytest.approx(given_cores, abs=0.001 * len(needs))
    assert all(shares[name] >= 0.97 * need - 0.002 for name, need in named(needs).items()), shares


@pytest.mark.parametrize(("count", "part"), [(2, 0.9), (4, 0.85), (8, 0.8)])
def test_one_that_works_among_others_that_rest_has_nearly_all(count: int, part: float) -> None:
    assert Loops(0.8).live(named([1.0] + [0.0] * (count - 1)), 60)["tm-0"] > part * 0.8


def test_where_nobody_has_enough_all_come_to_as_much() -> None:
    loops = Loops(0.6)
    assert loops.live(named((1.0, 0.01)), 60)["tm-0"] > 0.5
    shares = loops.live(named((1.0, 1.0)), 30)
    assert shares["tm-0"] == pytest.approx(0.3, rel=0.03) and shares["tm-1"] == pytest.approx(0.3, rel=0.03)


def test_one_that_works_now_and_then_has_its_part_within_seconds() -> None:
    loops = Loops(0.3)
    loops.live(named((1.0, 1.0, 0.0)), 60)
    assert loops.live(named((1.0, 1.0, 1.0)), 5)["tm-2"] > 0.05


def test_what_one_takes_to_get_ready_is_no_need() -> None:
    loops = Loops(0.6)
    two = loops.live(named((0.3, 0.25)), 20)
    for second in range(10):
        # It loads, and hosts nothing: a whole core.
        loops.hear("tm-2", float(second), 0.0)
        assert loops.live(named((0.3, 0.25)), 1) == pytest.approx(two, abs=0.002)
    three = loops.live(named((0.3, 0.1, 0.15)), 1)
    assert min(three.values()) > 0.15
    # Of those that have gone nothing is left.
    assert loops.live({"tm-2": 0.5}, 1) == {"tm-2": 0.6}


def test_readings_that_come_twice_or_begin_anew_say_nothing() -> None:
    loops = Loops(0.32)
    before = loops.live({"tm-0": 0.17, "tm-1": 0.12}, 30)
    for _ in range(3):
        loops.hear("tm-0", *loops.counted["tm-0"])
        loops.hear("tm-1", *loops.counted["tm-1"])
    loops.second += 1
    loops.hear("tm-0", 0.0, 0.0)
    assert loops.running.shares(("tm-0", "tm-1")) == before


def test_a_core_each_is_a_core_each_and_without_a_bound_there_are_no_shares() -> None:
    loops = Loops(2.0)
    assert loops.live({"tm-0": 1.0, "tm-1": 0.1}, 20) == {"tm-0": 1.0, "tm-1": 1.0}
    loops.running.wanted = 1.5
    assert max(loops.live({"tm-0": 1.0, "tm-1": 0.1}, 20).values()) <= 1.0
    loops.running.wanted = None
    assert loops.running.shares(("tm-0",)) == {} and loops.running.held(2) == 2.0


def test_less_is_shared_out_as_it_is_used() -> None:
    used, never = np.array([0.31, 0.11]), np.zeros(2)
    shares = core_shares(0.2, used, never)
    floor = FLOOR * 0.1
    assert shares.sum() == pytest.approx(0.2) and shares.min() > floor
    assert (shares[0] - 0.009 - floor) / (shares[1] - 0.009 - floor) == pytest.approx(3.0)
    assert core_shares(0.2, never, never).tolist() == pytest.approx([0.1, 0.1])
