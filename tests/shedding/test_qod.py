"""The quality-of-data controller as a whole: what Stream-Economics promises, on random clusters.

The properties are those of docs/design/papers/stream-economics.md 9.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import Cause, NoChange, ShedPlan, as_dict
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.snapshot_bytes import from_bytes, to_bytes
from penstock.shedding import accuracy
from penstock.shedding.progressive_filling import fill
from penstock.shedding.qod import PAPER, PENSTOCK, CycleOutcome, QualityOfData, plan_cycle
from penstock.shedding.qod_distribute import distribute
from penstock.shedding.qod_figures import FigureOptions, Figures, read_figures
from penstock.shedding.qod_sources import NO_LAGS
from tests.papers_cases import cases
from tests.shedding.clusters import Shape, random_snapshot

seeds = st.integers(0, 2**32 - 1)
both = st.sampled_from([PAPER, PENSTOCK])
ways = st.sampled_from([distribute, fill])
SHAPES = (
    Shape(),
    Shape(cores=8, young=0.1, missing=0.1),
    Shape(cores=4, minimums=(0.3, 0.7), cpu_percent=40.0),
    Shape(machines=2, minimums=(0.9,), cpu_percent=30.0, zeros=0.02),
)


def drawn(seed: int) -> ClusterSnapshot:
    rng = np.random.default_rng(seed)
    return random_snapshot(rng, SHAPES[rng.integers(len(SHAPES))])


def cycle_of(seed: int, way: Any, by_instance: bool = False) -> tuple[Figures, np.ndarray, CycleOutcome]:
    rng = np.random.default_rng(seed)
    figures = read_figures(drawn(seed), FigureOptions(by_instance=by_instance), NO_LAGS)
    assert isinstance(figures, Figures)
    is_warming = rng.random(len(figures.task)) < rng.choice([0.0, 0.1])
    return figures, is_warming, plan_cycle(figures, is_warming, way)


@settings(max_examples=cases())
@given(seeds, ways, st.booleans())
def test_desired_accuracy_lies_between_the_minimum_and_1(seed: int, way: Any, by_instance: bool) -> None:
    figures, _, cycle = cycle_of(seed, way, by_instance)
    assert (cycle.desired >= figures.minimum - 1e-12).all() and (cycle.desired <= 1.0).all()


@settings(max_examples=cases())
@given(seeds, ways, st.booleans())
def test_what_is_granted_is_there_unless_warm_up_or_failure_is_reported(seed: int, way: Any, by_instance: bool) -> None:
    figures, is_warming, cycle = cycle_of(seed, way, by_instance)
    machines = len(figures.a_cpu)
    load = np.bincount(figures.machine, cycle.granted, machines)
    for instance, target in cycle.moves.items():
        load[target] += figures.min_req_cpu[instance]
    excused = set(cycle.failed) | set(figures.machine[is_warming].tolist())
    kept = [m for m in range(machines) if m not in excused]
    assert (load[kept] <= figures.a_cpu[kept] + 1e-6).all()


@settings(max_examples=cases())
@given(seeds, ways)
def test_rescheduling_leaves_no_machine_below_zero_and_begins_only_where_minimums_do_not_fit(
    seed: int, way: Any
) -> None:
    figures, is_warming, cycle = cycle_of(seed, way)
    required = np.bincount(figures.machine, figures.min_req_cpu, len(figures.a_cpu))
    warms = np.isin(np.arange(len(figures.a_cpu)), figures.machine[is_warming])
    short = (required > figures.a_cpu + 1e-6) & ~warms
    left = figures.a_cpu - required
    room = left.copy()
    for instance, target in cycle.moves.items():
        assert short[figures.machine[instance]] and target != figures.machine[instance]
        left[figures.machine[instance]] += figures.min_req_cpu[instance]
        left[target] -= figures.min_req_cpu[instance]
        room[target] -= figures.min_req_cpu[instance]
    settled = [m for m in range(len(left)) if not warms[m] and m not in cycle.failed]
    assert (left[settled] >= -1e-6).all()
    assert set(cycle.failed) <= set(np.flatnonzero(short).tolist())
    # A machine is only said to have failed where one that stayed found no room anywhere; what instances that left other
    # machines gave up may come too late for it, and is there in the next cycle.
    for m in cycle.failed:
        stayed = [i for i in np.flatnonzero(figures.machine == m) if i not in cycle.moves]
        assert max(figures.min_req_cpu[stayed]) > max(room.max(), 0.0)


@settings(max_examples=cases())
@given(seeds, both)
def test_below_the_minimum_only_if_that_is_reported(seed: int, policy: QualityOfData) -> None:
    snapshot, policy = drawn(seed), replace(policy, confirms=False)
    decision, _ = policy.decide(snapshot, policy.start())
    figures = read_figures(snapshot, policy.reading, NO_LAGS)
    assert isinstance(figures, Figures)
    if isinstance(decision, NoChange):
        return
    assert isinstance(decision, ShedPlan)
    is_young = figures.age_s < policy.warm_up.timeout_s
    plain = read_figures(snapshot, replace(policy.reading, drain_s=None), NO_LAGS)
    assert isinstance(plain, Figures)
    cycle = plan_cycle(figures, is_young, policy.share_out, plain.min_req_cpu)
    got = accuracy.obt_ac(cycle.granted, plain.cpu, plain.c_ac)
    capped = {demand.task for demand in decision.demands}
    excused = set(decision.failed) | set(figures.machine[is_young].tolist())
    for i in range(len(got)):
        if got[i] < plain.min_ac[i] - 1e-6 and i not in cycle.moves:
            idle = plain.cpu[i] == 0 and cycle.granted[i] == 0
            assert idle or figures.task[i] in capped or figures.machine[i] in excused
    assert {m.instance for m in decision.moves} == {int(figures.row[i]) for i in cycle.moves}
    for demand in decision.demands:
        whole = plain.cpu / np.where(plain.c_ac > 0, plain.c_ac, 1.0)
        assert any(whole[i] * plain.min_ac[i] > 100 for i in np.flatnonzero(figures.task == demand.task))


@settings(max_examples=cases())
@given(seeds)
def test_nothing_leaves_for_what_one_cycle_saw(seed: int) -> None:
    """The second cycle moves what the first would have moved, and says nothing of a failure before; all is reported."""
    snapshot = drawn(seed)
    at_once, _ = replace(PENSTOCK, confirms=False).decide(snapshot, PENSTOCK.start())
    first, memory = PENSTOCK.decide(snapshot, PENSTOCK.start())
    if isinstance(at_once, NoChange):
        assert first == at_once and not memory.short
        return
    assert isinstance(at_once, ShedPlan)
    assert isinstance(first, NoChange) or (not first.moves and not first.failed)
    assert bool(memory.short) == bool(at_once.moves or at_once.failed) == ("in the next cycle" in first.reason)
    figures = read_figures(snapshot, PENSTOCK.reading, NO_LAGS)
    assert isinstance(figures, Figures)
    graph, is_short = figures.graph, np.isin(np.array(snapshot.machines.name), list(memory.short))
    touched = graph.pair_query[np.isin(graph.pair_task, figures.task[is_short[figures.machine]])]
    for query in touched[touched < graph.declared]:
        kept = 1.0 if isinstance(first, NoChange) else first.desired_accuracy[query]
        assert kept == figures.minimum[query]
    later = replace(snapshot, time_s=snapshot.time_s + PENSTOCK.period_s)
    second, _ = PENSTOCK.decide(later, replace(memory, warm_ups=PENSTOCK.start().warm_ups))
    assert isinstance(second, ShedPlan)
    assert (second.moves, second.failed) == (at_once.moves, at_once.failed)
    long_after = replace(snapshot, time_s=snapshot.time_s + 3 * PENSTOCK.period_s)
    third, _ = PENSTOCK.decide(long_after, replace(memory, warm_ups=PENSTOCK.start().warm_ups))
    assert isinstance(third, NoChange) or not third.moves


@settings(max_examples=cases())
@given(seeds, both)
def test_keep_probabilities_lead_to_what_is_desired_on_every_path(seed: int, policy: QualityOfData) -> None:
    snapshot = drawn(seed)
    decision, _ = policy.decide(snapshot, policy.start())
    if isinstance(decision, NoChange):
        return
    assert isinstance(decision, ShedPlan)
    keeps = [*decision.source_keep.values(), *decision.edge_keep.values()]
    assert all(0.0 <= keep < 1.0 for keep in keeps)
    edges, tasks = snapshot.edges, len(snapshot.tasks)
    wanted = [0.0] * tasks
    fed = set(edges.producer.tolist())
    for q, task in enumerate(snapshot.queries.task.tolist()):
        wanted[task] = max(wanted[task], decision.desired_accuracy[q])
    undeclared = set(range(tasks)) - fed - set(snapshot.queries.task.tolist())
    for task in reversed(range(tasks)):
        below = [c for p, c in zip(edges.producer.tolist(), edges.consumer.tolist(), strict=True) if p == task]
        wanted[task] = max([wanted[task], *(wanted[c] for c in below), *([1.0] if task in undeclared else [])])
    products: list[set[float]] = [set() for _ in range(tasks)]
    for task in range(tasks):
        into = [e for e in range(len(edges)) if edges.consumer[e] == task]
        if not into:
            products[task] = {decision.source_keep.get(task, 1.0)}
        for e in into:
            products[task] |= {decision.edge_keep.get(e, 1.0) * above for above in products[edges.producer[e]]}
        assert list(products[task]) == pytest.approx([wanted[task]] * len(products[task]), abs=1e-9)


@settings(max_examples=cases())
@given(seeds, both)
def test_all_on_a_machine_that_warms_up_runs_at_its_minimum(seed: int, policy: QualityOfData) -> None:
    rng = np.random.default_rng(seed)
    snapshot = random_snapshot(rng, Shape(young=0.2, cores=8))
    decision, memory = policy.decide(snapshot, policy.start())
    young = np.flatnonzero(snapshot.instances.age_s < 60.0)
    assert len(memory.warm_ups.who) == len(young)
    figures = read_figures(snapshot, policy.reading, NO_LAGS)
    assert isinstance(figures, Figures)
    hot = set(snapshot.instances.machine[young].tolist())
    tasks = set(figures.task[np.isin(figures.machine, list(hot))].tolist())
    desired = decision.desired_accuracy if isinstance(decision, ShedPlan) else (1.0,) * figures.graph.declared
    for task, q in zip(figures.graph.pair_task.tolist(), figures.graph.pair_query.tolist(), strict=True):
        if task in tasks and q < figures.graph.declared:
            assert desired[q] == figures.minimum[q]
    if isinstance(decision, ShedPlan):
        assert not {int(snapshot.instances.machine[m.instance]) for m in decision.moves} & hot


@settings(max_examples=cases())
@given(seeds, both)
def test_the_same_gives_the_same_also_after_a_journey_as_bytes(seed: int, policy: QualityOfData) -> None:
    snapshot = drawn(seed)
    first, _ = policy.decide(snapshot, policy.start())
    again, _ = policy.decide(from_bytes(to_bytes(snapshot)), policy.start())
    assert as_dict(first) == as_dict(again)


def calm() -> ClusterSnapshot:
    shape = Shape(cores=1, zeros=0.0, cpu_percent=10.0, machines=1, idle_sinks=0.0, minimums=(0.3,))
    return random_snapshot(np.random.default_rng(3), shape)


@pytest.mark.parametrize("policy", [PAPER, PENSTOCK])
@pytest.mark.parametrize(
    ("group", "column"),
    [
        ("instances", "cpu_ns"),
        ("instances", "records_in"),
        ("instances", "age_s"),
        ("machines", "cpu_percent"),
        ("outputs", "records_out"),
        ("partitions", "appended"),
    ],
)
def test_what_was_not_measured_is_said(policy: QualityOfData, group: str, column: str) -> None:
    snapshot = calm()
    columns = replace(getattr(snapshot, group), **{column: None})
    decision, memory = policy.decide(replace(snapshot, **{group: columns}), policy.start())
    assert isinstance(decision, NoChange) and decision.reason.startswith("not measured") and column in decision.reason
    assert decision.cause is Cause.NOT_MEASURED
    assert memory.decided_s is None


def test_ours_needs_own_offers_and_lags() -> None:
    snapshot = calm()
    for group, column in (("inputs", "offered"), ("partitions", "position")):
        lacking = replace(snapshot, **{group: replace(getattr(snapshot, group), **{column: None})})
        assert not PAPER.decide(lacking, PAPER.start())[0].reason.startswith("not measured")
        assert PENSTOCK.decide(lacking, PENSTOCK.start())[0].reason.startswith("not measured")


def test_a_source_without_log_needs_a_rate() -> None:
    snapshot = calm()
    without = replace(snapshot, partitions=type(snapshot.partitions).none())
    decision, _ = PAPER.decide(without, PAPER.start())
    assert decision.reason == "not measured: what source 't0' is offered"
    rates = np.where(snapshot.tasks.is_source, 100.0, np.nan)
    told = replace(without, tasks=replace(snapshot.tasks, target_rate=rates))
    assert not PAPER.decide(told, PAPER.start())[0].reason.startswith("not measured")


def test_a_cycle_comes_once_a_period() -> None:
    snapshot = calm()
    _, memory = PAPER.decide(snapshot, PAPER.start())
    early, same = PAPER.decide(replace(snapshot, time_s=snapshot.time_s + 4.9), memory)
    assert isinstance(early, NoChange) and early.cause is Cause.NOT_DUE and same is memory
    assert early.reason.startswith("not due")
    due, _ = PAPER.decide(replace(snapshot, time_s=snapshot.time_s + 5.0), memory)
    assert not due.reason.startswith("not due")


def test_the_end_of_shedding_is_told_once() -> None:
    snapshot = calm()
    assert snapshot.machines.cpu_percent is not None and snapshot.instances.cpu_ns is not None
    busy = replace(snapshot, machines=replace(snapshot.machines, cores=snapshot.machines.cores * 0.01))
    plan, memory = PAPER.decide(busy, PAPER.start())
    assert isinstance(plan, ShedPlan) and memory.is_shedding
    cores = np.full(1, 1000.0)
    rows = snapshot.instances.records_in
    assert rows is not None
    wide = replace(snapshot, machines=replace(snapshot.machines, cores=cores), time_s=snapshot.time_s + 5)
    plan, memory = PAPER.decide(wide, memory)
    assert isinstance(plan, ShedPlan) and not plan.source_keep and not plan.edge_keep and not memory.is_shedding
    done, _ = PAPER.decide(replace(wide, time_s=wide.time_s + 5), memory)
    assert isinstance(done, NoChange) and done.reason == "all queries at full accuracy"


def test_a_task_that_was_never_measured_counts_a_core() -> None:
    snapshot = calm()
    cpu = np.full(len(snapshot.instances), np.nan)
    figures = read_figures(
        replace(snapshot, instances=replace(snapshot.instances, cpu_ns=cpu)), FigureOptions(), NO_LAGS
    )
    assert isinstance(figures, Figures)
    assert figures.unmeasured_tasks == len(snapshot.tasks) and (figures.cpu == 100.0).all()
    assert figures.c_ac.tolist() == [1.0] * len(figures.c_ac)


def test_parameters_are_checked() -> None:
    with pytest.raises(ValueError, match="cycle"):
        replace(PAPER, period_s=0.0)
    with pytest.raises(ValueError, match="backlog"):
        FigureOptions(drain_s=0.0)
    assert {field.name for field in fields(QualityOfData)} == {
        "share_out",
        "reading",
        "period_s",
        "warm_up",
        "move_timeout_s",
        "confirms",
        "moves",
    }
