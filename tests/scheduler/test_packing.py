"""Packing: no dimension is ever exceeded, what need not move stays, and the sums of Justin."""

import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.memory_levels import BASE_BYTES, MIB, managed_bytes
from penstock.scheduler.packing import NONE, machine_room, pack, profile, task_bytes
from tests.papers_cases import cases

SEEDS = st.integers(0, 2**32 - 1)


def megabytes(*levels: int | None) -> float:
    return sum(task_bytes(0 if level is None else managed_bytes(level)) for level in levels) / MIB


@pytest.mark.parametrize(
    ("ds2", "justin", "printed"),
    [
        ([0] * 25, [1] * 12 + [None], (8275, 6041)),
        ([0] * 13, [1] * 6 + [None], (4303, 3107)),
        ([0] * 15, [0] * 12 + [None] * 3, (4965, 4491)),
    ],
    ids=["q8", "q11", "q3"],
)
def test_the_memory_of_the_papers_queries(ds2: list[int], justin: list[int | None], printed: tuple[int, int]) -> None:
    assert (megabytes(*ds2), megabytes(*justin)) == printed


def test_a_machine_of_2_gb_holds_two_large_tasks_and_two_without_state() -> None:
    """The fragmentation trap: 1324 MB for tasks, of which 2 * 489 + 2 * 173 take all."""
    room = machine_room(BASE_BYTES)
    assert room[1:].sum() / MIB == 1324 == megabytes(1, 1, None, None)
    large, bare = profile(managed_bytes(1)), profile(0)
    needs = np.array([large] * 4 + [bare] * 4)
    packing = pack(needs, np.zeros((0, 4), np.int64), room, np.full(8, NONE))
    assert packing.machines == 2 and np.bincount(packing.machine).tolist() == [4, 4]
    assert np.bincount(packing.machine[:4]).tolist() == [2, 2]
    alone = pack(needs[:4], np.zeros((0, 4), np.int64), room, np.full(4, NONE))
    assert alone.machines == 2, "two machines of 4 cores for 4 assigned ones"


@dataclass(frozen=True)
class Case:
    needs: np.ndarray
    room: np.ndarray
    new: np.ndarray | None
    stays: np.ndarray


def drawn(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    tasks, machines, dimensions = int(rng.integers(1, 20)), int(rng.integers(0, 6)), int(rng.integers(1, 5))
    kinds = rng.integers(0, 8, (int(rng.integers(1, 5)), dimensions))
    needs = kinds[rng.integers(0, len(kinds), tasks)].astype(np.int64)
    room = rng.integers(0, 25, (machines, dimensions)).astype(np.int64)
    new = rng.integers(0, 25, dimensions).astype(np.int64) if rng.random() < 0.7 else None
    return Case(needs, room, new, rng.integers(-1, machines, tasks) if machines else np.full(tasks, NONE))


@settings(max_examples=cases())
@given(SEEDS)
def test_no_dimension_is_exceeded_and_only_what_fits_nowhere_is_left(seed: int) -> None:
    case = drawn(seed)
    packing = pack(case.needs, case.room, case.new, case.stays)
    added = packing.machines - len(case.room)
    assert added == 0 or case.new is not None
    offers = np.concatenate([case.room, np.tile(case.new, (added, 1))]) if added else case.room
    used = np.zeros_like(offers)
    placed = packing.machine != NONE
    np.add.at(used, packing.machine[placed], case.needs[placed])
    assert (used <= offers).all()
    for need in case.needs[~placed]:
        assert case.new is None or (need > case.new).any()
        assert not (need <= offers - used).all(axis=1).any()


@settings(max_examples=cases())
@given(SEEDS)
def test_what_has_not_changed_stays_if_it_fits_together(seed: int) -> None:
    """Wherever first fit would put it: machines are shuffled after the first packing, and some tasks change."""
    case, rng = drawn(seed), np.random.default_rng(seed)
    first = pack(case.needs, case.room, case.new, case.stays)
    added = np.tile(case.room[:0] if case.new is None else case.new, (first.machines - len(case.room), 1))
    offers = np.concatenate([case.room, added.reshape(-1, case.needs.shape[1])])
    order = rng.permutation(first.machines)
    where = np.where(first.machine == NONE, NONE, np.argsort(order)[first.machine] if first.machines else NONE)
    again = pack(case.needs, offers[order], case.new, where)
    assert np.array_equal(again.machine[where != NONE], where[where != NONE]) and again.machines == first.machines
    changed = rng.random(len(where)) < 0.3
    needs = np.where(changed[:, None], rng.integers(0, 8, case.needs.shape), case.needs)
    after = pack(needs, offers[order], case.new, np.where(changed, NONE, where))
    stay = ~changed & (where != NONE)
    assert np.array_equal(after.machine[stay], where[stay])


def test_if_those_that_stay_do_not_fit_together_the_last_move() -> None:
    packing = pack(np.full((4, 1), 3), np.array([[7], [7]]), None, np.zeros(4, np.int64))
    assert packing.machine.tolist() == [0, 0, 1, 1]


@settings(max_examples=cases())
@given(SEEDS)
def test_it_is_first_fit_with_the_largest_first(seed: int) -> None:
    case = drawn(seed)
    packing = pack(case.needs, case.room, case.new, np.full(len(case.needs), NONE))
    machine, machines = one_by_one(case)
    assert packing.machines == machines
    assert sorted(map(tuple, np.c_[packing.machine, case.needs])) == sorted(map(tuple, np.c_[machine, case.needs]))


def one_by_one(case: Case) -> tuple[np.ndarray, int]:
    """Return what first fit does task by task; tasks of one share come in the order of their needs."""
    offers = case.room if case.new is None else np.concatenate([case.room, case.new[None, :]])
    share = (case.needs / np.maximum(offers.max(axis=0, initial=0), 1)).max(axis=1)
    order = sorted(range(len(share)), key=lambda task: (-share[task], tuple(case.needs[task])))
    free, machine = [row.copy() for row in case.room], np.full(len(share), NONE)
    for task in order:
        found = next((m for m, left in enumerate(free) if (case.needs[task] <= left).all()), None)
        if found is None and case.new is not None and (case.needs[task] <= case.new).all():
            free.append(case.new.copy())
            found = len(free) - 1
        if found is not None:
            free[found] -= case.needs[task]
            machine[task] = found
    return machine, len(free)


def test_100_000_tasks_are_packed_within_a_second() -> None:
    rng = np.random.default_rng(3)
    kinds = np.stack([profile(int(managed)) for managed in rng.integers(0, 632 * MIB, 2000)])
    needs = kinds[rng.integers(0, len(kinds), 100_000)]
    room = np.tile(np.array([128_000, 1 << 40, 1 << 40, 60_000 * MIB]), (1000, 1))
    stays = np.where(rng.random(100_000) < 0.5, rng.integers(0, 1000, 100_000), NONE)
    started = time.process_time()
    packing = pack(needs, room, room[0], stays)
    assert time.process_time() - started < 1
    assert (packing.machine != NONE).all()
