"""Equations 1 to 15 of Stream-Economics against loops over paths, instances and edges."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding import accuracy
from penstock.shedding.task_graph import TaskGraph, task_graph
from tests.papers_cases import cases

seeds = st.integers(0, 2**32 - 1)


def random_graph(rng: np.random.Generator) -> TaskGraph:
    """Return up to eight tasks, edges to later ones, and queries at some, also where rows go on."""
    tasks = int(rng.integers(1, 9))
    pairs = [(a, b) for b in range(tasks) for a in range(b) if rng.random() < 0.35]
    names = rng.permutation(tasks)
    producer = np.array([names[a] for a, _ in pairs], np.int32)
    consumer = np.array([names[b] for _, b in pairs], np.int32)
    return task_graph(tasks, producer, consumer, rng.integers(0, tasks, int(rng.integers(0, 5))).astype(np.int32))


def below(graph: TaskGraph, task: int) -> list[int]:
    return [int(c) for p, c in zip(graph.producer, graph.consumer, strict=True) if p == task]


def above(graph: TaskGraph, task: int) -> list[int]:
    return [int(p) for p, c in zip(graph.producer, graph.consumer, strict=True) if c == task]


def queries_below(graph: TaskGraph, task: int) -> set[int]:
    own = {q for q, at in enumerate(graph.query_task) if at == task}
    return own.union(*(queries_below(graph, t) for t in below(graph, task)))


@settings(max_examples=cases())
@given(seeds)
def test_queries_reached_and_their_largest_figure_equations_1_2_5(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    figures = rng.random(len(graph.query_task))
    reached = [queries_below(graph, t) for t in range(graph.tasks)]
    pairs = zip(graph.pair_task.tolist(), graph.pair_query.tolist(), strict=True)
    assert list(pairs) == [(t, q) for t, found in enumerate(reached) for q in sorted(found)]
    largest = [max(figures[q] for q in found) for found in reached]
    for equation in (accuracy.p, accuracy.min_ac, accuracy.max_ac):
        assert equation(figures, graph).tolist() == largest


@settings(max_examples=cases())
@given(seeds)
def test_current_accuracy_is_the_worst_path_equation_3(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    local = rng.random(graph.tasks) * (rng.random(graph.tasks) < 0.9)

    def worst(task: int) -> float:
        return float(local[task]) * min((worst(t) for t in above(graph, task)), default=1.0)

    assert accuracy.c_ac(local, graph) == pytest.approx([worst(t) for t in range(graph.tasks)])


@settings(max_examples=cases())
@given(seeds)
def test_local_accuracy_and_cpu_of_the_slowest_instance_equations_4_6(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tasks = int(rng.integers(1, 4))
    task = rng.integers(0, tasks, int(rng.integers(0, 8)))
    in_rate, cpu = rng.integers(0, 4, len(task)).astype(float), rng.random(len(task)) * 100
    offered, instances = rng.integers(0, 10, tasks).astype(float), np.bincount(task, minlength=tasks)
    local = accuracy.l_ac(in_rate, task, offered, instances)
    load = accuracy.cpu(cpu, in_rate, task, tasks)
    for t in range(tasks):
        own = [(in_rate[i], -cpu[i]) for i in range(len(task)) if task[i] == t]
        if not own:
            assert math.isnan(local[t]) and math.isnan(load[t])
            continue
        slowest, negative = min(own)
        assert load[t] == -negative
        share = slowest / (offered[t] / len(own)) if offered[t] else 1.0
        assert local[t] == pytest.approx(min(share, 1.0))


fraction = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))
percent = st.one_of(st.sampled_from([0.0, 100.0]), st.floats(0, 100))


@settings(max_examples=cases())
@given(fraction, percent, fraction)
def test_cpu_for_an_accuracy_equations_8_9_10(ac: float, cpu: float, c_ac: float) -> None:
    expected = min(ac * cpu / c_ac, 100) if c_ac else (100 if ac else 0)
    for equation in (accuracy.r_cpu, accuracy.min_req_cpu, accuracy.max_req_cpu):
        assert equation(np.array([ac]), np.array([cpu]), np.array([c_ac])) == pytest.approx([expected])


@settings(max_examples=cases())
@given(percent, percent, fraction)
def test_accuracy_for_a_cpu_equation_11(c: float, cpu: float, c_ac: float) -> None:
    if c_ac == 0:
        expected = 1.0 if c else 0.0
    elif cpu == 0:
        expected = 1.0 if c else c_ac
    else:
        expected = min(c_ac * c / cpu, 1.0)
    assert accuracy.obt_ac(np.array([c]), np.array([cpu]), np.array([c_ac])) == pytest.approx([expected])


@settings(max_examples=cases())
@given(st.floats(0.01, 1), st.floats(0.01, 100), st.floats(0.01, 1), st.floats(0, 1))
def test_equations_8_and_11_undo_each_other_and_add_up_where_no_cap_binds(
    ac: float, cpu: float, c_ac: float, part: float
) -> None:
    load, current = np.array([cpu]), np.array([c_ac])
    needed = accuracy.r_cpu(np.array([ac]), load, current)
    if needed[0] < 100:
        assert accuracy.obt_ac(needed, load, current) == pytest.approx([ac])
        # What Algorithm 3 adds up: the accuracy of the minimum, and that of the CPU above it.
        least = accuracy.min_req_cpu(np.array([ac * part]), load, current)
        extra = accuracy.diff_req(needed, least)
        assert accuracy.obt_ac(extra, load, current) + ac * part == pytest.approx([ac])


def test_what_lacks_on_a_machine_equations_7_12_13() -> None:
    diff_req = accuracy.diff_req(np.array([50.0, 30.0, 20.0]), np.array([10.0, 30.0, 0.0]))
    assert diff_req.tolist() == [40.0, 0.0, 20.0]
    share = accuracy.m_obt_cpu(np.array([60.0, 60.0, 5.0]), np.array([2.0, 2.0, 1.0]))
    assert share.tolist() == [30.0, 30.0, 5.0]
    # The same as what is wanted less what is there: 40 + 0 - 60, and 20 - 5.
    assert accuracy.slack(diff_req, share, np.array([0, 0, 1]), 2).tolist() == [-20.0, 15.0]


@settings(max_examples=cases())
@given(seeds)
def test_what_is_kept_on_every_path_is_what_the_task_is_to_have_equations_14_15(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    wanted = np.round(rng.random(len(graph.query_task)), 1)
    desired = accuracy.desired(wanted, graph)
    assert desired.tolist() == accuracy.max_ac(wanted, graph).tolist()
    keep = accuracy.d(desired[graph.consumer], desired[graph.producer])
    assert ((keep >= 0) & (keep <= 1)).all()

    def products(task: int) -> list[float]:
        into = [e for e in range(len(keep)) if graph.consumer[e] == task]
        own = [float(desired[task])] if not into else []
        return own + [keep[e] * product for e in into for product in products(int(graph.producer[e]))]

    for task in range(graph.tasks):
        assert products(task) == pytest.approx([desired[task]] * len(products(task)))


@settings(max_examples=cases())
@given(seeds, fraction)
def test_only_sources_shed_if_all_queries_want_the_same(seed: int, wanted: float) -> None:
    graph = random_graph(np.random.default_rng(seed))
    desired = accuracy.desired(np.full(len(graph.query_task), wanted), graph)
    keep = accuracy.d(desired[graph.consumer], desired[graph.producer])
    assert keep.tolist() == [1.0 if wanted else 0.0] * len(keep)


def test_equal_accuracy_of_neighbours_is_no_invariant() -> None:
    """Section 3.2 says ac(t1) = ac(t2) above t3; a source that also feeds a richer query shows that it is not."""
    graph = task_graph(4, np.array([0, 1, 0]), np.array([2, 2, 3]), np.array([2, 3], np.int32))
    desired = accuracy.desired(np.array([0.6, 0.8]), graph)
    assert desired.tolist() == [0.8, 0.6, 0.6, 0.8]
    assert accuracy.d(desired[graph.consumer], desired[graph.producer]).tolist() == pytest.approx([0.75, 1.0, 1.0])


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="2 of 3 tasks lie on or below a cycle"):
        task_graph(3, np.array([0, 1, 2]), np.array([1, 2, 1]), np.array([], np.int32))
