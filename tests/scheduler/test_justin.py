"""Justin: Algorithm 1 at two and three levels, its repairs, and what goes wrong without them.

The repairs are those of docs/design/papers/justin-ds2.md 4.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.memory_levels import MIB, managed_bytes
from penstock.model.plan import Decision, NoChange, RescalePlan, TaskSize, not_measured
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.guarded import Guarded
from penstock.scheduler.justin import Justin, JustinMemory
from penstock.scheduler.limits import PlanLimits
from tests.papers_cases import cases
from tests.scheduler.scaling_jobs import Job, Task, measured

SEEDS = st.integers(0, 2**32 - 1)
AS_PRINTED = Justin(hysteresis=0.0, tabu_decisions=0, guards_scale_down=False)
Access = tuple[float, float]
"""theta, tau."""


def query(rate: float, target: float, p: int = 1, level: int = 0, access: Access = (0.5, 2.0)) -> Job:
    """A source, a stateful task of ``rate`` rows a second and instance, and a sink that still has its memory."""
    theta, tau = access
    state = Task("state", rate, p, True, level, managed_bytes(level), theta, 1 - theta, tau, key_groups=1 << 12)
    return Job([Task("source", None, managed=0.0), state, Task("sink", 1e9)], [(0, 1, 1.0), (1, 2, 1.0)], target)


def size_of(decision: Decision, task: int = 1) -> TaskSize | None:
    sizes = decision.tasks if isinstance(decision, RescalePlan) else ()
    return next((size for size in sizes if size.task == task), None)


def changed_level(size: TaskSize, level: int) -> int:
    return level if size.memory_level is None else size.memory_level


def driven(
    policy: Justin, accesses: Sequence[Access], rates: Sequence[float], target: Callable[[int], float]
) -> list[tuple[int, int]]:
    """Return (instances, level) after each decision; figures are given decision by decision, and applied at once."""
    memory, p, level, path = policy.start(), 1, 0, []
    for turn, (access, rate) in enumerate(zip(accesses, rates, strict=True)):
        job = query(rate, target(turn), p, level, access)
        decision, memory = policy.decide(measured(job, time_s=1000.0 * (turn + 1), window_s=120.0), memory)
        size = size_of(decision)
        if size is not None:
            p, level = size.parallelism, changed_level(size, level)
        path.append((p, level))
    return path


Q11: list[tuple[Access, float]] = [
    ((0.45, 2.0), 3400.0),
    ((0.72, 0.9), 8000.0),
    ((0.8, 0.7), 8400.0),
    ((0.86, 0.5), 16_700.0),
]
"""theta, tau and rows a second of an instance, before the first decision and after each: what leads along the paper's
path for q11 (its own figures are only drawn)."""


def q11(policy: Justin) -> list[tuple[int, int]]:
    targets = [5000.0, 12_000.0, 25_000.0, 50_000.0]
    return driven(policy, [access for access, _ in Q11], [rate for _, rate in Q11], lambda turn: targets[turn])


def test_q11_goes_up_out_out_with_two_levels_and_cannot_with_three() -> None:
    assert q11(Justin(max_level=2)) == [(1, 1), (3, 1), (6, 1), (6, 1)]
    assert (3, 1) not in q11(Justin(max_level=3)) and (3, 1) not in q11(AS_PRINTED)


@settings(max_examples=cases())
@given(st.tuples(*[st.tuples(st.floats(0, 1), st.floats(0, 5))] * 3), st.floats(0, 0.5), st.booleans())
def test_no_figures_at_all_lead_from_up_to_out_with_three_levels(
    accesses: tuple[Access, ...], hysteresis: float, repaired: bool
) -> None:
    policy = replace(Justin() if repaired else AS_PRINTED, hysteresis=hysteresis)
    path = driven(policy, accesses, [1000.0] * 3, lambda turn: 5000.0 * 2**turn)
    if path[0] == (1, 1):
        assert path[1] == (1, 2) or path[1][1] == 0, "raised again, or rolled back"
        assert [level for _, level in path] != [1, 1, 1]


def test_q3_keeps_its_level_and_strips_what_has_no_state() -> None:
    tasks = [
        Task("source", None, managed=0.0),
        Task("filter", 1e6),
        Task("join", 10_000.0, 1, True, hits=1.0, misses=0.0, get_ms=0.01),
        Task("sink", 1e9),
    ]
    job = Job(tasks, [(0, 1, 1.0), (1, 2, 0.9), (2, 3, 1.0)], 66_000.0)
    decision, _ = Justin().decide(measured(job, 1000.0, 120.0), JustinMemory())
    assert [size_of(decision, task) for task in (1, 2, 3)] == [
        TaskSize(1, 1, managed_bytes=0),
        TaskSize(2, 12),
        TaskSize(3, 1, managed_bytes=0),
    ]


@pytest.mark.parametrize(
    ("access", "up"),
    [((0.79, 0.1), True), ((0.99, 1.01), True), ((0.80, 1.0), False), ((0.99, 0.1), False), ((0.1, 9.0), True)],
)
def test_memory_comes_first_where_few_accesses_hit_or_they_are_slow(access: Access, up: bool) -> None:
    decision, _ = Justin().decide(measured(query(1000, 5000, access=access), 1000.0, 120.0), JustinMemory())
    assert size_of(decision) == (TaskSize(1, 1, 1, 316 * MIB) if up else TaskSize(1, 10))


def test_a_perfect_miss_rate_is_no_sign_of_having_no_state() -> None:
    decision, _ = Justin().decide(measured(query(1000, 5000, access=(0.0, 3.0)), 1000.0, 120.0), JustinMemory())
    assert size_of(decision) == TaskSize(1, 1, 1, 316 * MIB)
    job = query(1000, 5000, access=(0.0, 0.0))
    silent = replace(job, tasks=[replace(task, hits=0.0, misses=0.0) for task in job.tasks])
    decision, _ = Justin().decide(measured(silent, 1000.0, 120.0), JustinMemory())
    assert size_of(decision) == TaskSize(1, 10), "nothing was read, so that nothing missed"


Step = tuple[tuple[int, int], tuple[int, int], bool, bool]
"""(p, m) before and after a decision, whether memory was raised before it, and whether that improved anything."""


def random_history(policy: Justin, seed: int, turns: int = 5) -> list[Step]:
    rng = np.random.default_rng(seed)
    memory, p, level, told, target = policy.start(), 1, 0, [], 3000.0
    before, raised = (1.0, 0.0), False
    for turn in range(turns):
        access = (float(rng.uniform(0, 1)), float(rng.uniform(0, 3)))
        target *= float(rng.uniform(0.3, 3))
        job = query(float(rng.uniform(500, 2000)), target, p, level, access)
        decision, memory = policy.decide(measured(job, 1000.0 * (turn + 1), 120.0), memory)
        size = size_of(decision)
        after = (p, level) if size is None else (size.parallelism, changed_level(size, level))
        better = access[0] > before[0] * (1 + policy.hysteresis) or access[1] < before[1] * (1 - policy.hysteresis)
        told.append(((p, level), after, raised, better))
        sink = size_of(decision, 2)
        assert sink is None or (sink.managed_bytes == 0 and sink.memory_level is None)
        if isinstance(decision, RescalePlan):
            before, raised = access, after[1] > level
        p, level = after
    return told


@settings(max_examples=cases())
@given(SEEDS, st.sampled_from([1, 2, 3]))
def test_memory_moves_by_one_level_and_never_up_together_with_instances(seed: int, max_level: int) -> None:
    for (p, level), (new_p, new_level), raised, better in random_history(Justin(max_level=max_level), seed):
        assert abs(new_level - level) <= 1 and 0 <= new_level < max_level
        if new_level > level:
            assert new_p == p, "memory instead of instances"
        if new_level < level:
            assert raised and not better and new_p > p, "rolled back to where it was, and DS2's instances apply"
        if level == max_level - 1 and new_p > p:
            assert new_level <= level, "at the top there is only more instances"


@settings(max_examples=cases())
@given(SEEDS, st.integers(1, 3))
def test_what_was_rolled_back_is_left_alone_for_k_decisions(seed: int, k: int) -> None:
    since = None
    for (_, level), (_, new_level), _, _ in random_history(Justin(tabu_decisions=k), seed, turns=6):
        assert not (since is not None and since < k and new_level > level)
        since = 0 if new_level < level else None if since is None else since + 1


@settings(max_examples=cases())
@given(SEEDS)
def test_without_more_memory_for_any_task_there_is_less_in_all_than_ds2_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    job = query(float(rng.uniform(500, 2000)), float(rng.uniform(100, 20_000)), int(rng.integers(1, 9)), 0, (0.99, 0.1))
    snapshot = measured(job, 1000.0, 120.0)
    decision, _ = Justin().decide(snapshot, JustinMemory())
    ds2 = Justin().ds2.propose(snapshot).parallelism.astype(int)
    assert all(size.parallelism == ds2[size.task] for size in getattr(decision, "tasks", ()))
    given = {size.task: size.managed_bytes for size in getattr(decision, "tasks", ())}
    managed = [task.managed if given.get(t) is None else given[t] for t, task in enumerate(job.tasks)]
    ours = sum(p * managed[t] for t, p in enumerate(ds2))
    assert ours <= sum(p * task.managed for p, task in zip(ds2, job.tasks, strict=True))


def test_without_hysteresis_a_cache_that_does_not_help_climbs() -> None:
    useless = [(0.300, 2.0), (0.301, 2.0), (0.302, 2.0), (0.303, 2.0)]
    growing = lambda turn: 5000.0 * 2**turn  # noqa: E731
    assert [level for _, level in driven(AS_PRINTED, useless, [1000.0] * 4, growing)] == [1, 2, 2, 2]
    assert [level for _, level in driven(Justin(), useless, [1000.0] * 4, growing)] == [1, 0, 0, 0]


def test_without_a_tabu_memory_goes_up_and_down() -> None:
    useless = [(0.3, 2.0)] * 6
    growing = lambda turn: 5000.0 * 2.2**turn  # noqa: E731
    levels = [level for _, level in driven(replace(Justin(), tabu_decisions=0), useless, [1000.0] * 6, growing)]
    assert levels == [1, 0, 1, 0, 1, 0]
    assert [level for _, level in driven(Justin(), useless, [1000.0] * 6, growing)] == [1, 0, 0, 0, 0, 1]


def test_as_printed_a_task_that_should_shrink_gets_more_memory() -> None:
    ample = measured(query(1000.0, 500.0, p=6, access=(0.5, 2.0)), 1000.0, 120.0)
    assert size_of(AS_PRINTED.decide(ample, JustinMemory())[0]) == TaskSize(1, 6, 1, 316 * MIB)
    assert size_of(Justin().decide(ample, JustinMemory())[0]) == TaskSize(1, 1)


def test_what_ds2_leaves_alone_keeps_its_level() -> None:
    """The artifact lets it fall to level 0, for its listing forgets to carry it over."""
    tasks = [
        Task("source", None),
        Task("ample", 20_000.0, 1, True, 2, managed_bytes(2), 0.9, 0.1, 0.5),
        Task("short", 1000.0, 1, True, 0, managed_bytes(0), 0.9, 0.1, 0.5),
    ]
    job = Job(tasks, [(0, 1, 1.0), (1, 2, 1.0)], 8000.0)
    decision, _ = Justin().decide(measured(job, 1000.0, 120.0), JustinMemory())
    assert size_of(decision, 1) is None and size_of(decision, 2) == TaskSize(2, 16)


def test_inside_the_band_nothing_is_done() -> None:
    decision, _ = Justin().decide(measured(query(1000.0, 2500.0, p=5), 1000.0, 120.0), JustinMemory())
    assert decision == NoChange("capacity suffices")


@pytest.mark.parametrize("column", ["cache_hits", "cache_misses", "get_ms"])
def test_access_to_state_that_was_not_measured_is_said(column: str) -> None:
    snapshot = measured(query(1000.0, 5000.0), 1000.0, 120.0)
    hidden = replace(snapshot, instances=replace(snapshot.instances, **{column: None}))
    assert Justin().decide(hidden, JustinMemory())[0] == not_measured("figures of task 'state' of 'job'")


def test_windows_that_began_before_it_settled_are_not_looked_at() -> None:
    policy = Justin()
    _, memory = policy.decide(measured(query(1000.0, 5000.0), 1000.0, 120.0), policy.start())
    decision, memory = policy.decide(measured(query(1000.0, 5000.0, level=1), 1120.0, 120.0), memory)
    assert decision == NoChange("within the warm-up of 60 s")
    decision, _ = policy.decide(measured(query(1000.0, 5000.0, level=1), 1180.0, 120.0), memory)
    assert isinstance(decision, RescalePlan)


def at_the_quota(p: int, base: int, target: float, number: int, level: int = 0) -> ClusterSnapshot:
    """Return what is seen of a task whose instances have ``base`` bytes at level 0, and few hits."""
    job = query(1000.0, target, p, level)
    tasks = [replace(task, managed=0.0 if n != 1 else base * 2.0**level) for n, task in enumerate(job.tasks)]
    return measured(replace(job, tasks=tasks), 1000.0 * number, 120.0)


def test_where_the_quota_refuses_memory_ds2s_parallelism_applies() -> None:
    policy = Guarded(Justin(), PlanLimits(most_memory_bytes=500.0 * MIB))
    memory, p, path = policy.start(), 2, []
    for number in range(1, 9):
        decision, memory = policy.decide(at_the_quota(p, 158 * MIB, 6000.0, number), memory)
        p = p if (size := size_of(decision)) is None else size.parallelism
        assert size is None or size.managed_bytes is None
        path.append(p)
    assert path[0] == 2 and path[1:] == [3] * 7, "a third one fits beside two of 158 MiB"


@pytest.mark.parametrize("policy", [Justin(), AS_PRINTED])
def test_memory_that_was_refused_is_asked_for_again_and_given_once_there_is_room(policy: Justin) -> None:
    guard = Guarded(policy, PlanLimits(most_memory_bytes=500.0 * MIB))
    memory, raised = guard.start(), []
    for number in range(1, 8):
        if number == 5:
            guard = replace(guard, limits=PlanLimits(most_memory_bytes=5000.0 * MIB))
        decision, memory = guard.decide(at_the_quota(3, 158 * MIB, 9000.0, number), memory)
        raised += [number] if (size := size_of(decision)) is not None and size.memory_level == 1 else []
    assert raised[0] == 5, "three decisions later"


@pytest.mark.parametrize("base", [4 * MIB, 16 * MIB, 100 * MIB, 300 * MIB])
def test_a_level_doubles_what_an_instance_has_whatever_its_job_began_with(base: int) -> None:
    up, memory = Justin().decide(at_the_quota(1, base, 5000.0, 1), JustinMemory())
    assert size_of(up) == TaskSize(1, 1, 1, 2 * base)
    seen = at_the_quota(1, base, 5000.0, 2, level=1)
    better = replace(seen.instances, cache_hits=seen.instances.cache_hits * 1.2)  # type: ignore[operator]
    up, _ = Justin().decide(replace(seen, instances=better), memory)
    assert size_of(up) == TaskSize(1, 1, 2, 4 * base)
    back, _ = Justin().decide(seen, memory)
    assert size_of(back) == TaskSize(1, 10, 0, base)


def test_a_band_is_needed() -> None:
    with pytest.raises(ValueError, match="band"):
        Justin(ds2=replace(Justin().ds2, band=None))
