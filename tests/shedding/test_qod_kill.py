"""Algorithm 2 of Stream-Economics: who leaves a machine, and why its listing had to be repaired."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.qod_kill import kill_tasks, reserve, sparing_order
from tests.papers_cases import cases

seeds = st.integers(0, 2**32 - 1)


def random_machine(seed: int) -> tuple[float, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    required = rng.integers(0, 100, n).astype(float)
    return float(rng.uniform(0, required.sum())), rng.integers(1, 4, n).astype(float), required


def kill(need: float, p: np.ndarray, required: np.ndarray) -> tuple[list[int], float]:
    """Return which of one machine's instances go, and what that releases."""
    order = sparing_order(np.zeros(len(p), np.intp), p, required)
    killed, released = kill_tasks(need, p[order].tolist(), required[order].tolist())
    return order[killed].tolist(), released


def literal(need: float, p: np.ndarray, required: np.ndarray, ascending: bool = True) -> list[int]:
    """Algorithm 2 as it is printed, but for the order of its first loop if `ascending`."""
    cpu, rel, candidates = need, 0.0, []
    for level in sorted(set(p), reverse=not ascending):
        if cpu - rel > 0:
            candidates += [i for i in range(len(p)) if p[i] == level]
            rel += sum(required[i] for i in range(len(p)) if p[i] == level)
    failed = []
    for i in sorted(candidates, key=lambda i: (-p[i], -required[i])):
        if rel - required[i] >= cpu:
            rel -= required[i]
        else:
            failed.append(i)
            cpu -= required[i]
    return failed


@settings(max_examples=cases())
@given(seeds)
def test_enough_is_released_and_nobody_goes_who_could_stay(seed: int) -> None:
    need, p, required = random_machine(seed)
    killed, released = kill(need, p, required)
    assert released == pytest.approx(required[killed].sum()) and released >= need - 1e-9
    assert all(released - required[i] < need for i in killed)
    # A proper part of the set never releases enough: irredundant, though not always the fewest.
    assert (
        all(sum(required[list(part)]) < need for r in range(len(killed)) for part in combinations(killed, r))
        or not killed
    )


@settings(max_examples=cases())
@given(seeds)
def test_low_priorities_go_first(seed: int) -> None:
    need, p, required = random_machine(seed)
    killed, _ = kill(need, p, required)
    covering = [level for level in sorted(set(p)) if required[p <= level].sum() >= need]
    assert all(p[i] <= covering[0] for i in killed)


def test_the_listing_counts_a_failed_instance_twice() -> None:
    p, required = np.ones(3), np.array([40.0, 30.0, 20.0])
    assert literal(50.0, p, required) == [1]
    assert kill(50.0, p, required) == ([1, 2], 50.0)


def test_the_listing_releases_too_little_in_nearly_half_of_all_cases() -> None:
    machines = [random_machine(seed) for seed in range(2000)]
    short = [required[literal(need, p, required)].sum() < need - 1e-9 for need, p, required in machines]
    assert 0.25 < np.mean(short) < 0.75


def test_in_the_order_of_the_listing_the_important_go_first() -> None:
    p, required = np.array([3.0, 1.0]), np.array([50.0, 50.0])
    assert literal(40.0, p, required, ascending=False) == [0]
    assert kill(40.0, p, required) == ([1], 50.0)


def test_all_go_where_that_is_still_too_little() -> None:
    assert kill(100.0, np.array([1.0, 2.0]), np.array([10.0, 20.0])) == ([1, 0], 30.0)


@settings(max_examples=cases())
@given(seeds)
def test_room_is_never_given_twice_and_refused_only_where_there_is_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    room = rng.uniform(-50, 150, int(rng.integers(1, 6)))
    room[rng.random(len(room)) < 0.1] = np.nan
    required = rng.uniform(1, 100, int(rng.integers(0, 9))).tolist()
    found = reserve(room, required)
    left = room.copy()
    for machine, cpu in zip(found, required, strict=True):
        if machine is not None:
            left[machine] -= cpu
    used = [m for m in found if m is not None]
    assert (left[used] >= -1e-9).all()
    refused = [cpu for machine, cpu in zip(found, required, strict=True) if machine is None]
    assert all(cpu > np.nanmax(np.append(left, -np.inf)) for cpu in refused)


def test_the_largest_chooses_first() -> None:
    assert reserve(np.array([60.0, 50.0]), [40.0, 60.0]) == [1, 0]
