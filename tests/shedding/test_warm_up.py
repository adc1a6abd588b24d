"""When a warm-up ends (Stream-Economics, section 6): stable CPU and the minimum accuracy, or the timeout."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.instance_identity import InstanceNames
from penstock.shedding.warm_up import WarmUpRule, WarmUps, warming
from tests.papers_cases import cases

RULE = WarmUpRule()
NAN = float("nan")


def names(*numbers: int, tasks: tuple[str, ...] = ("t",), task: int = 0) -> InstanceNames:
    code = np.array([task * 2**32 + number for number in numbers], np.int64)
    return InstanceNames(("a",), tasks, (0,) * len(tasks), code)


def run(cpu: list[float], ages: list[float], short: list[float] | None = None) -> list[bool]:
    """Return whether one instance is warming up after each of these readings."""
    memory, found = WarmUps(), []
    for at, (percent, age) in enumerate(zip(cpu, ages, strict=True)):
        lacking = np.array([0.0 if short is None else short[at]])
        is_warming, memory = warming(RULE, memory, names(1), np.array([age]), np.array([percent]), lacking)
        found.append(bool(is_warming[0]))
    return found


def test_it_ends_when_three_readings_lie_within_five_points() -> None:
    assert run([10, 50, 80, 81, 79], [5, 10, 15, 20, 25]) == [True, True, True, True, False]


def test_it_lasts_until_the_minimum_accuracy_is_there() -> None:
    assert run([80] * 5, [5, 10, 15, 20, 25], [0.3, 0.3, 0.3, 0.02, 0.0]) == [True, True, True, True, False]


def test_it_ends_at_the_timeout() -> None:
    assert run([10, 90, 10, 90], [45, 50, 55, 60]) == [True, True, True, False]


def test_a_reading_that_lacks_puts_it_off() -> None:
    assert run([80, 80, NAN, 80, 80, 80], [5, 10, 15, 20, 25, 30]) == [True] * 5 + [False]


def test_it_does_not_begin_again_unless_the_instance_is_started_again() -> None:
    assert run([80, 80, 80, 10, 90, 10], [5, 10, 15, 20, 25, 30]) == [True, True, False, False, False, False]
    assert run([80, 80, 80, 80, 80, 80], [5, 10, 15, 2, 7, 12]) == [True, True, False, True, True, False]


def test_an_instance_is_found_again_in_other_rows() -> None:
    memory = WarmUps()
    for age in (5.0, 10.0):
        _, memory = warming(RULE, memory, names(1, 2), np.array([age, age]), np.array([80.0, 10 * age]), np.zeros(2))
    moved = InstanceNames(("b", "a"), ("s", "t"), (0, 1), np.array([1, 2**32 + 2, 2**32 + 1], np.int64))
    is_warming, _ = warming(RULE, memory, moved, np.full(3, 15.0), np.full(3, 80.0), np.zeros(3))
    assert is_warming.tolist() == [True, True, False]


def test_a_rule_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="1 reading"):
        WarmUpRule(stable_readings=0)


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_only_the_young_warm_up_and_never_twice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory, count = WarmUps(), int(rng.integers(1, 6))
    ended, started = np.zeros(count, np.bool_), rng.uniform(0, 80, count)
    for cycle in range(6):
        age = started + 5.0 * cycle
        who = rng.permutation(count)
        readings, short = rng.uniform(70, 80, count), rng.uniform(-0.05, 0.05, count)
        found, memory = warming(RULE, memory, names(*who.tolist()), age[who], readings, short)
        is_warming = np.zeros(count, np.bool_)
        is_warming[who] = found
        assert not is_warming[age >= RULE.timeout_s].any()
        assert not (is_warming & ended).any()
        assert cycle >= 2 or is_warming[age < RULE.timeout_s].all()
        ended |= ~is_warming
