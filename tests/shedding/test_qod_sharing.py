"""Algorithm 3 and progressive filling against slow and plain ways to the same, and against each other."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding import accuracy
from penstock.shedding.progressive_filling import fill
from penstock.shedding.qod_distribute import distribute
from penstock.shedding.qod_figures import FigureOptions, Figures, read_figures
from penstock.shedding.qod_sources import NO_LAGS
from penstock.shedding.task_graph import task_graph
from tests.papers_cases import cases
from tests.shedding.clusters import Shape, random_snapshot

seeds = st.integers(0, 2**32 - 1)


def random_figures(rng: np.random.Generator, **shape: object) -> tuple[Figures, np.ndarray, np.ndarray, np.ndarray]:
    """Return figures, CPU left on machines once minimums are reserved, where queries begin, and who is served."""
    figures = read_figures(random_snapshot(rng, replace(Shape(), **shape)), FigureOptions(), NO_LAGS)
    assert isinstance(figures, Figures)
    left = rng.uniform(0, 200, len(figures.a_cpu)) * (rng.random(len(figures.a_cpu)) < 0.9)
    begin = np.where(rng.random(len(figures.minimum)) < 0.1, figures.minimum, 1.0)
    taking = np.flatnonzero(rng.random(len(figures.task)) < 0.95)
    return figures, left, begin, taking


def slope(figures: Figures, i: int) -> float:
    if figures.c_ac[i] > 0:
        return float(figures.cpu[i] / figures.c_ac[i])
    return 0.0 if figures.min_ac[i] > 0 else 100.0


def extra(figures: Figures, desired: np.ndarray, i: int) -> float:
    """Return CPU above the minimum that instance i needs, where one that took no rows is taken for a whole core."""
    reached = figures.graph.pair_query[figures.graph.pair_task == figures.task[i]]
    return max(0.0, slope(figures, i) * (max(desired[reached]) - figures.min_ac[i]))


def fits(figures: Figures, left: np.ndarray, desired: np.ndarray, taking: np.ndarray) -> bool:
    load = np.zeros(len(left))
    for i in taking:
        load[figures.machine[i]] += extra(figures, desired, i)
    return bool((load <= left + 1e-10).all())


def thread_ceilings(figures: Figures) -> np.ndarray:
    ceiling = np.full(len(figures.minimum), np.inf)
    for i, task in enumerate(figures.task):
        if figures.c_ac[i] > 0 and figures.cpu[i] > 0:
            for q in figures.graph.pair_query[figures.graph.pair_task == task]:
                ceiling[q] = min(ceiling[q], 100.0 / slope(figures, i))
    return ceiling


STEP = 1e-8
"""Who cannot rise by this alone is stuck to the slow way, which is no more exact."""


def filled_slowly(figures: Figures, left: np.ndarray, begin: np.ndarray, taking: np.ndarray) -> np.ndarray:
    """Raise all queries of a priority together by bisection; those that cannot rise alone stay, the others go on."""
    ceiling = np.maximum(figures.minimum, np.minimum(begin, thread_ceilings(figures)))
    desired = figures.minimum.copy()
    for p in sorted(set(figures.priority), reverse=True):
        active = [q for q in range(len(desired)) if figures.priority[q] == p]
        while active:
            low, high = 0.0, 1.0
            if fits(figures, left, _together(desired, ceiling, active, high), taking):
                desired = _together(desired, ceiling, active, high)
                break
            for _ in range(50):
                middle = (low + high) / 2
                is_fine = fits(figures, left, _together(desired, ceiling, active, middle), taking)
                low, high = (middle, high) if is_fine else (low, middle)
            desired, before = _together(desired, ceiling, active, low), len(active)
            stuck = [q for q in active if not fits(figures, left, _alone(desired, q, STEP), taking)]
            active = [q for q in active if q not in stuck and desired[q] < ceiling[q] - 1e-12]
            assert len(active) < before
    return desired


def _together(desired: np.ndarray, ceiling: np.ndarray, active: list[int], x: float) -> np.ndarray:
    raised = desired.copy()
    raised[active] = np.clip(x, desired[active], np.maximum(desired[active], ceiling[active]))
    return raised


def _alone(desired: np.ndarray, q: int, step: float) -> np.ndarray:
    raised = desired.copy()
    raised[q] += step
    return raised


@settings(max_examples=cases())
@given(seeds)
def test_filling_stays_within_machines_threads_and_bounds(seed: int) -> None:
    figures, left, begin, taking = random_figures(np.random.default_rng(seed))
    desired, granted = fill(figures, left, begin, taking)
    assert (desired >= figures.minimum).all() and (desired <= np.maximum(begin, figures.minimum) + 1e-12).all()
    assert (desired <= np.maximum(thread_ceilings(figures), figures.minimum) + 1e-9).all()
    used = np.bincount(figures.machine, granted, len(left))
    assert (used <= left + 1e-6).all() and (granted >= 0).all()
    wanted = accuracy.max_ac(desired, figures.graph)[figures.task]
    taken = np.isin(np.arange(len(figures.task)), taking)
    needs = accuracy.diff_req(accuracy.max_req_cpu(wanted, figures.cpu, figures.c_ac), figures.min_req_cpu)
    seen = taken & (figures.c_ac > 0)
    assert granted[seen] == pytest.approx(needs[seen], abs=1e-6)


@settings(max_examples=cases())
@given(seeds)
def test_filling_is_max_min_fair_as_the_slow_way_finds_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    figures, left, begin, taking = random_figures(rng, applications=2, tasks=4, machines=3, parallelism=2)
    desired, _ = fill(figures, left, begin, taking)
    assert desired == pytest.approx(filled_slowly(figures, left, begin, taking), abs=1e-6)


@settings(max_examples=cases())
@given(seeds)
def test_the_least_of_the_highest_priority_never_falls_when_a_machine_grows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    figures, left, begin, taking = random_figures(rng)
    larger = left.copy()
    larger[rng.integers(0, len(left))] += rng.uniform(0, 100)
    top = figures.priority == figures.priority.max()
    less, more = (fill(figures, room, begin, taking)[0][top].min() for room in (left, larger))
    assert more >= less - 1e-9


@settings(max_examples=cases())
@given(seeds)
def test_the_greedy_way_stays_within_machines_and_bounds(seed: int) -> None:
    figures, left, begin, taking = random_figures(np.random.default_rng(seed))
    desired, granted = distribute(figures, left, begin, taking)
    assert (desired >= figures.minimum - 1e-12).all() and (desired <= begin).all()
    assert (np.bincount(figures.machine, granted, len(left)) <= left + 1e-6).all() and (granted >= 0).all()


@settings(max_examples=cases())
@given(seeds)
def test_on_one_machine_the_greedy_way_shares_cpu_max_min(seed: int) -> None:
    """Tasks that share no query, of one priority: the largest c with sum of min(want, c) <= what is there."""
    rng = np.random.default_rng(seed)
    figures, left, _, _ = random_figures(rng, tasks=1, applications=6, machines=1, parallelism=1, priorities=1)
    figures = replace(figures, c_ac=np.maximum(figures.c_ac, 0.3), cpu=np.minimum(figures.cpu, 30.0))
    least = accuracy.min_req_cpu(figures.min_ac, figures.cpu, figures.c_ac)
    figures = replace(figures, min_req_cpu=least)
    everyone = np.flatnonzero(figures.p == figures.p.max())
    _, granted = distribute(figures, left, np.ones(len(figures.minimum)), everyone)
    want = (accuracy.max_req_cpu(np.ones(len(figures.cpu)), figures.cpu, figures.c_ac) - least)[everyone]
    low, high = 0.0, 100.0
    for _ in range(60):
        share = (low + high) / 2
        low, high = (share, high) if np.minimum(want, share).sum() <= left[0] else (low, share)
    assert granted[everyone] == pytest.approx(np.minimum(want, low), abs=1e-6)


def algorithm_3(
    figures: Figures, left: np.ndarray, begin: np.ndarray, taking: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The listings of Algorithm 1, lines 15 to 19, and 3, line by line, with repair 4."""
    desired, a_cpu, granted = begin.copy(), left.copy(), np.zeros(len(figures.task))

    def diff_req(i: int) -> tuple[float, float, bool]:
        max_ac = max(desired[figures.graph.pair_query[figures.graph.pair_task == figures.task[i]]])
        cpu, c_ac = figures.cpu[i : i + 1], figures.c_ac[i : i + 1]
        max_req = float(accuracy.max_req_cpu(np.array([max_ac]), cpu, c_ac)[0])
        is_capped = bool(c_ac[0] > 0 and max_ac * cpu[0] / c_ac[0] > 100)
        return max(0.0, max_req - float(figures.min_req_cpu[i])), max_ac, is_capped

    for p in sorted(set(figures.p[taking]), reverse=True):
        hosts: dict[int, list[int]] = {}
        for i in taking:
            if figures.p[i] == p:
                hosts.setdefault(int(figures.machine[i]), []).append(int(i))
        slack = {tm: round(sum(diff_req(i)[0] for i in it) - a_cpu[tm], 6) for tm, it in hosts.items()}
        for tm in sorted(hosts, key=lambda tm: (-slack[tm], tm)):
            wants = {i: diff_req(i)[0] for i in hosts[tm]}
            for c, i in enumerate(sorted(hosts[tm], key=wants.__getitem__)):
                want, max_ac, is_capped = diff_req(i)
                got = min(want, a_cpu[tm] / (len(hosts[tm]) - c))
                ac = max_ac
                if got < want or is_capped:
                    obtained = accuracy.obt_ac(np.array([got]), figures.cpu[i : i + 1], figures.c_ac[i : i + 1])
                    ac = min(1.0, figures.min_ac[i] + float(obtained[0]))
                for q in figures.graph.pair_query[figures.graph.pair_task == figures.task[i]]:
                    desired[q] = min(desired[q], ac)
                a_cpu[tm] -= got
                if a_cpu[tm] < 1e-9:
                    a_cpu[tm] = 0.0
                granted[i] = got
    return desired, granted


@settings(max_examples=cases())
@given(seeds)
def test_the_greedy_way_is_algorithm_3(seed: int) -> None:
    figures, left, begin, taking = random_figures(np.random.default_rng(seed), parallelism=2, machines=3)
    desired, granted = distribute(figures, left, begin, taking)
    expected, cpu = algorithm_3(figures, left, begin, taking)
    assert desired == pytest.approx(expected, abs=1e-9)
    assert granted == pytest.approx(cpu, abs=1e-6)


def two_sinks(cpu: float, minimums: tuple[float, float], priorities: tuple[float, float] = (1, 1)) -> Figures:
    """Return two tasks on one machine, which take `cpu` for an accuracy of 1."""
    rng = np.random.default_rng(0)
    shape = Shape(applications=1, tasks=1, machines=1, parallelism=1, idle_sinks=0.0, zeros=0.0)
    figures = read_figures(random_snapshot(rng, shape), FigureOptions(), NO_LAGS)
    assert isinstance(figures, Figures)
    minimum, both = np.array(minimums), np.full(2, cpu)
    return replace(
        figures,
        graph=task_graph(2, np.zeros(0, np.int32), np.zeros(0, np.int32), np.arange(2, dtype=np.int32)),
        minimum=minimum,
        priority=np.array(priorities, float),
        task=np.arange(2),
        machine=np.zeros(2, np.intp),
        p=np.array(priorities, float),
        min_ac=minimum,
        cpu=both,
        c_ac=np.ones(2),
        min_req_cpu=accuracy.min_req_cpu(minimum, both, np.ones(2)),
    )


def test_the_paper_shares_cpu_and_penstock_accuracy() -> None:
    cpu = 100 / 1.12
    figures, everyone = two_sinks(cpu, (0.4, 0.6)), np.arange(2)
    left = np.array([100 - cpu])
    assert distribute(figures, left, np.ones(2), everyone)[0] == pytest.approx([0.46, 0.66])
    assert fill(figures, left, np.ones(2), everyone)[0] == pytest.approx([0.52, 0.6])
    lower = two_sinks(cpu, (0.1, 0.2))
    left = np.array([100 - 0.3 * cpu])
    assert distribute(lower, left, np.ones(2), everyone)[0] == pytest.approx([0.51, 0.61])
    assert fill(lower, left, np.ones(2), everyone)[0] == pytest.approx([0.56, 0.56])


@pytest.mark.parametrize("share_out", [distribute, fill])
def test_the_higher_priority_keeps_all_while_the_lower_gives_way(share_out) -> None:  # type: ignore[no-untyped-def]
    everyone = np.arange(2)
    for cpu in (60.0, 80.0, 99.0):
        figures = two_sinks(cpu, (0.0, 0.0), (2, 1))
        desired, _ = share_out(figures, np.array([100.0]), np.ones(2), everyone)
        assert desired == pytest.approx([1.0, 100 / cpu - 1])


def test_a_task_whose_cpu_rounds_to_zero_is_not_frozen() -> None:
    """Repair 4: obtAc(t, 0) + minAc(t) of the listing is today's accuracy, so that shedding would never end."""
    figures = replace(two_sinks(0.0, (0.0, 0.0)), c_ac=np.array([0.3, 0.3]))
    assert accuracy.obt_ac(np.zeros(2), figures.cpu, figures.c_ac).tolist() == [0.3, 0.3]
    for share_out in (distribute, fill):
        assert share_out(figures, np.array([0.0]), np.ones(2), np.arange(2))[0].tolist() == [1.0, 1.0]


def test_the_sum_of_the_listing_exceeds_1() -> None:
    """Repair 4: without CPU measured, obtAc(t, c) is 1, and the minimum is added to it."""
    figures = replace(two_sinks(50.0, (0.4, 0.4)), c_ac=np.array([0.0, 1.0]))
    least = accuracy.min_req_cpu(figures.min_ac, figures.cpu, figures.c_ac)
    assert accuracy.obt_ac(np.array([1.0]), figures.cpu[:1], figures.c_ac[:1])[0] + figures.min_ac[0] > 1.0
    figures = replace(figures, min_req_cpu=least)
    desired, _ = distribute(figures, np.array([20.0]), np.ones(2), np.arange(2))
    assert desired == pytest.approx([1.0, 0.8])


def test_a_full_thread_stops_a_query_and_no_other() -> None:
    figures = replace(two_sinks(90.0, (0.0, 0.0)), c_ac=np.array([0.5, 1.0]))
    for share_out in (distribute, fill):
        desired, _ = share_out(figures, np.array([400.0]), np.ones(2), np.arange(2))
        assert desired == pytest.approx([100 / 180, 1.0])


def test_filling_is_better_for_the_worst_query() -> None:
    """Equal CPU is better for the mean: what is cheap to compute gets more of it."""
    worst, mean = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        figures, left, _, _ = random_figures(rng, zeros=0.0, applications=6, tasks=6, priorities=1)
        everyone, begin = np.arange(len(figures.task)), np.ones(len(figures.minimum))
        even, filled = (way(figures, left, begin, everyone)[0][: figures.graph.declared] for way in (distribute, fill))
        if figures.graph.declared:
            worst.append((even.min(), filled.min()))
            mean.append((even.mean(), filled.mean()))
    assert np.mean(worst, axis=0)[1] > 1.02 * np.mean(worst, axis=0)[0]
    assert np.mean(mean, axis=0)[1] > 0.9 * np.mean(mean, axis=0)[0]


def test_one_query_may_lose_when_a_machine_grows() -> None:
    """Monotony of every query in a machine's capacity is no property: here is one that falls."""
    for seed in range(3000):
        rng = np.random.default_rng(seed)
        figures, left, begin, taking = random_figures(rng)
        larger = left.copy()
        larger[rng.integers(0, len(left))] += rng.uniform(0, 100)
        less, more = (fill(figures, room, begin, taking)[0] for room in (left, larger))
        if (more < less - 1e-3).any():
            return
    raise AssertionError("none fell")
