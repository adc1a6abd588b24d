"""Flink-ER: load is handed out before anything grows, the cut names the bottleneck, hot keys are named."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import NoChange, RescalePlan, TaskSize, not_measured
from penstock.model.snapshot import ApplicationColumns, ClusterSnapshot, MachineColumns, RefusalColumns
from penstock.scheduler.flink_er import FlinkEr
from penstock.scheduler.guarded import Guarded
from penstock.scheduler.limits import PlanLimits
from penstock.scheduler.loop_state import WITHOUT_EFFECT
from penstock.scheduler.network_needs import slow_tasks
from tests.papers_cases import cases
from tests.scheduler.flow_dags import FORWARD, FREE, Dag, dag_snapshot, minimum_cut, narrowest, paced, random_dag
from tests.scheduler.flow_jobs import Stage, snapshot

QUICK = FlinkEr(drain_s=1e12)
"""The lag adds nothing to the need, so that figures are round."""


def decide(policy: FlinkEr, state: ClusterSnapshot) -> RescalePlan | NoChange:
    decision, _ = policy.decide(state, policy.start())
    assert isinstance(decision, RescalePlan | NoChange)
    return decision


def test_selectivity_is_normalised_so_that_count_is_blamed_and_not_split() -> None:
    """5,000 lines and 20,000 words a second: plain flow says 5,000 and blames split; it is 2,000, and count."""
    job = [Stage("lines", [1e6], 1.0), Stage("split", [5000.0], 10.0), Stage("count", [20_000.0], free=False)]
    plan = decide(QUICK, snapshot(5000.0, job))
    assert isinstance(plan, RescalePlan)
    assert plan.tasks == (TaskSize(2, 3),) and "bottleneck 'count' (0.4 of the need)" in plan.reason


def test_spare_capacity_is_used_before_anything_grows() -> None:
    job = [Stage("source", [1e6]), Stage("map", [3000.0, 1000.0, 2000.0])]
    plan = decide(QUICK, snapshot(5000.0, job))
    assert isinstance(plan, RescalePlan) and plan.tasks == () and len(plan.routes) == 1
    shares = np.array(plan.routes[0].shares)
    assert shares.sum() == pytest.approx(1.0)
    assert np.all(shares * 5000 <= np.array([3000.0, 1000.0, 2000.0]) * (1 + 1e-9))


def test_a_keyed_task_moves_its_heaviest_buckets_before_it_grows() -> None:
    buckets = [(0, 0.3), (0, 0.25), (0, 0.15), (1, 0.2), (1, 0.1)]
    job = [Stage("source", [1e6]), Stage("count", [1100.0, 1000.0], free=False, shares=[0.7, 0.3], buckets=buckets)]
    plan = decide(QUICK, snapshot(2000.0, job))
    assert isinstance(plan, RescalePlan) and plan.tasks == ()
    assert [(move.bucket, move.number) for move in plan.buckets] == [(2, 1)]


def test_buckets_that_fit_nowhere_are_exchanged_if_that_helps_and_otherwise_the_task_grows() -> None:
    """Levels that have nothing to spare would be sought again at every look."""

    def plan(offered: float, heavy: float) -> RescalePlan | NoChange:
        light = 0.5 - heavy
        buckets = [(0, heavy), (0, heavy), (1, light), (1, light)]
        count = Stage("count", [1000.0] * 2, free=False, shares=[2 * heavy, 2 * light], buckets=buckets)
        return decide(QUICK, snapshot(offered, [Stage("source", [1e6]), count]))

    exchanged, grown = plan(1900.0, 0.3), plan(1990.0, 0.26)
    assert isinstance(exchanged, RescalePlan) and exchanged.tasks == ()
    assert [(move.bucket, move.number) for move in exchanged.buckets] == [(0, 1), (2, 0)]
    assert isinstance(grown, RescalePlan) and grown.buckets == () and [size.parallelism for size in grown.tasks] == [3]


def test_a_task_whose_buckets_moved_in_vain_grows() -> None:
    buckets = [(0, 0.3), (0, 0.25), (0, 0.15), (1, 0.2), (1, 0.1)]
    job = [Stage("source", [1e6]), Stage("count", [1100.0, 1000.0], free=False, shares=[0.7, 0.3], buckets=buckets)]
    state = snapshot(2000.0, job)
    settling = replace(state, refusals=RefusalColumns(("job/count",), ("bucket",), ("it settles for 5 s more",)))
    assert getattr(decide(QUICK, settling), "buckets", ())
    plan = decide(QUICK, replace(state, refusals=RefusalColumns(("job/count",), ("bucket",), (WITHOUT_EFFECT,))))
    assert isinstance(plan, RescalePlan) and not plan.buckets and [size.parallelism for size in plan.tasks] == [3]


def test_a_task_that_gets_no_instance_has_its_buckets_levelled_as_far_as_it_goes() -> None:
    """Moves do not carry what comes: instances are asked for first, and the next look does what can be done."""
    buckets = [(0, 0.3), (0, 0.25), (0, 0.15), (1, 0.2), (1, 0.1)]
    job = [Stage("source", [1e6]), Stage("count", [1100.0, 1000.0], free=False, shares=[0.7, 0.3], buckets=buckets)]
    policy = Guarded(QUICK, PlanLimits(most_cores=2.0, one_per_core=True))
    memory, decisions = policy.start(), []
    for number in range(1, 4):
        decision, memory = policy.decide(snapshot(3000.0, job, number=number), memory)
        decisions.append(decision)
    first, second, third = decisions
    assert isinstance(first, NoChange) and first.reason.startswith("refused: job/count parallelism: the quota of cores")
    assert isinstance(second, RescalePlan) and second.tasks == ()
    assert [(move.bucket, move.number) for move in second.buckets] == [(2, 1)]
    assert isinstance(third, NoChange) and "the last action settles" in third.reason
    assert memory.policy.full == (("job/count", 2),)
    # With another number of instances it is asked again.
    three = [replace(job[0]), replace(job[1], rates=[500.0] * 3, shares=[0.4, 0.3, 0.3], buckets=[])]
    decision, memory = policy.decide(snapshot(3000.0, three, number=40), memory)
    assert memory.policy.full == () and isinstance(decision, NoChange) and "the quota of cores" in decision.reason


def test_what_lags_in_one_look_and_not_in_the_next_is_left_alone() -> None:
    job = [Stage("source", [1e6]), Stage("map", [400.0])]
    policy = replace(QUICK, looks=2, latency_ms=1000.0)
    memory, reasons = policy.start(), []
    for number, lag in enumerate([5_000.0, 0.0, 5_000.0, 5_000.0, 5_000.0], start=1):
        decision, memory = policy.decide(snapshot(1000.0, job, lag=lag, number=number), memory)
        reasons.append((type(decision), decision.reason))
    first, calm, again, acted, settles = reasons
    assert first == again == (NoChange, "job: it lags or is slow, in 1 of 2 looks")
    assert calm == (NoChange, "no source lags") and acted[0] is RescalePlan
    # What has acted has seen nothing yet.
    assert settles == first
    with pytest.raises(ValueError, match="looks is 1 or more"):
        FlinkEr(looks=0)


def test_looks_at_other_instances_are_not_those_after_each_other() -> None:
    policy, memory = replace(QUICK, looks=2, latency_ms=1000.0), QUICK.start()
    for number, rates in enumerate([[400.0], [200.0] * 2, [200.0] * 2], start=1):
        job = [Stage("source", [1e6]), Stage("map", rates)]
        decision, memory = policy.decide(snapshot(1000.0, job, lag=5_000.0, number=number), memory)
        assert isinstance(decision, RescalePlan) == (number == 3), decision


def test_a_task_that_got_some_of_the_instances_that_it_wanted_is_asked_for_again() -> None:
    """It may have three times as many in one step: that is no quota, which would keep it from more."""
    policy = Guarded(QUICK, PlanLimits())
    first, memory = policy.decide(snapshot(9000.0, [Stage("source", [1e6]), Stage("map", [1000.0])]), policy.start())
    assert isinstance(first, RescalePlan) and first.tasks == (TaskSize(1, 3),)
    three = [Stage("source", [1e6]), Stage("map", [1000.0] * 3)]
    decision, memory = policy.decide(snapshot(9000.0, three, number=40), memory)
    assert memory.policy.full == () and isinstance(decision, RescalePlan) and decision.tasks == (TaskSize(1, 9),)


def test_a_hot_key_is_named_and_never_scaled() -> None:
    buckets = [(0, 0.8), (1, 0.1), (1, 0.1)]
    job = [Stage("source", [1e6]), Stage("count", [1000.0, 1000.0], free=False, shares=[0.8, 0.2], buckets=buckets)]
    plan = decide(QUICK, snapshot(2000.0, job))
    assert isinstance(plan, NoChange) and "hot key in bucket 0 of 'count'" in plan.reason


def test_a_backlog_makes_no_key_hot_so_that_after_an_outage_a_task_is_scaled() -> None:
    """What comes fits four times over; the backlog of an outage makes each bucket more than an instance can take."""
    even = [(bucket % 2, 1 / 8) for bucket in range(8)]
    job = [Stage("source", [1e6]), Stage("count", [2000.0, 2000.0], free=False, buckets=even)]
    plan = decide(FlinkEr(), snapshot(1000.0, job, lag=600_000.0, consumed=4000.0))
    assert isinstance(plan, RescalePlan), plan
    # The need is 31 times what comes; eight buckets feed no more than eight instances.
    assert plan.tasks == (TaskSize(1, 8),) and "hot key" not in plan.reason
    skewed = [(0, 0.8), (1, 0.1), (1, 0.1)]
    hot = [Stage("source", [1e6]), Stage("count", [700.0, 700.0], free=False, shares=[0.8, 0.2], buckets=skewed)]
    plan = decide(FlinkEr(), snapshot(1000.0, hot, lag=600_000.0))
    assert isinstance(plan, NoChange) and "hot key in bucket 0 of 'count'" in plan.reason


def test_buckets_that_carry_what_arrives_move_though_a_backlog_wants_more() -> None:
    """With them the waiting rows are worked off more slowly than is wished for, and nobody is added for them."""
    buckets = [(0, 0.3), (0, 0.25), (0, 0.15), (1, 0.2), (1, 0.1)]
    job = [Stage("source", [1e6]), Stage("count", [1100.0, 1000.0], free=False, shares=[0.7, 0.3], buckets=buckets)]
    plan = decide(FlinkEr(), snapshot(1800.0, job, lag=20_000.0))
    assert isinstance(plan, RescalePlan) and plan.tasks == ()
    assert [(move.bucket, move.number) for move in plan.buckets] == [(2, 1)]


def test_the_pool_goes_to_the_fullest_first() -> None:
    job = [Stage("source", [1e6]), Stage("a", [500.0]), Stage("b", [450.0])]
    plan = decide(FlinkEr(drain_s=1e12, pool=2), snapshot(1000.0, job))
    assert isinstance(plan, RescalePlan) and plan.tasks == (TaskSize(2, 3),)
    plan = decide(FlinkEr(drain_s=1e12, jump=False), snapshot(1000.0, job))
    assert isinstance(plan, RescalePlan) and plan.tasks == (TaskSize(2, 2), TaskSize(1, 2))
    assert isinstance(decide(FlinkEr(drain_s=1e12, pool=0), snapshot(1000.0, job)), NoChange)


def test_the_lag_is_part_of_the_need() -> None:
    job = [Stage("source", [1e6]), Stage("map", [1000.0])]
    plan = decide(FlinkEr(drain_s=60.0, action_s=0.0), snapshot(900.0, job, lag=60_000.0))
    assert isinstance(plan, RescalePlan) and plan.tasks == (TaskSize(1, 2),)
    patient = FlinkEr(drain_s=60.0, action_s=0.0, latency_ms=1000.0)
    assert decide(patient, snapshot(900.0, job, lag=10.0)) == NoChange("no source lags")


def test_a_source_that_feeds_two_applications_lags_for_both() -> None:
    """The second application's task holds the source of the first up; only the second can be blamed for it."""
    state = snapshot(1000.0, [Stage("source", [1e6]), Stage("map", [400.0])])
    two = replace(
        state,
        applications=ApplicationColumns(("reads", "is fed")),
        tasks=replace(state.tasks, application=np.array([0, 1], np.int32)),
    )
    plan = decide(QUICK, two)
    assert isinstance(plan, RescalePlan) and plan.tasks == (TaskSize(1, 3),)
    assert "is fed: bottleneck 'map'" in plan.reason and "reads: bottleneck" not in plan.reason


def test_who_does_not_know_latency_says_so_where_it_decides_nothing_else() -> None:
    job = [Stage("source", [1e6]), Stage("map", [1000.0])]
    blind, lags = (
        replace(state, instances=replace(state.instances, latency_ms=None))
        for state in (snapshot(900.0, job, lag=0.0), snapshot(2_000.0, job))
    )
    assert decide(QUICK, blind) == not_measured("instances.latency_ms")
    assert decide(replace(QUICK, latency_ms=np.inf), blind) == NoChange("no source lags")
    known = np.array([np.nan, 900.0])
    partly = decide(QUICK, replace(blind, instances=replace(blind.instances, latency_ms=known)))
    assert isinstance(partly, RescalePlan) and partly.reason.endswith("; not measured: instances.latency_ms")
    grown = decide(QUICK, lags)
    assert isinstance(grown, RescalePlan) and grown.tasks == (TaskSize(1, 3),)
    # Where nothing came nothing is slow; capacities told by latency are none without it.
    silent = replace(blind.instances, records_in=np.zeros(2))
    assert not slow_tasks(replace(blind, instances=silent), 500.0)[1].size
    assert decide(replace(QUICK, detector="paper"), lags) == not_measured("instances.latency_ms")
    for detector, latency_ms, why in (("paper", np.inf, "cannot be infinite"), ("true", 0.0, "above 0, not 0")):
        with pytest.raises(ValueError, match=why):
            FlinkEr(detector=detector, latency_ms=latency_ms)


def test_a_slow_task_gets_headroom_where_no_source_lags() -> None:
    """At 0.9 of its capacity a task is slow; it gets what lets it carry the load at no more than lambda."""
    job = [Stage("source", [1e6]), Stage("map", [1000.0])]
    plan = decide(QUICK, snapshot(900.0, job, lag=0.0))
    assert isinstance(plan, RescalePlan) and plan.tasks == (TaskSize(1, 2),)
    assert "bottleneck 'map' (1.11 of the need)" in plan.reason
    calm = decide(replace(QUICK, latency_ms=1000.0), snapshot(900.0, job, lag=0.0))
    assert calm == NoChange("no source lags")
    assert decide(replace(QUICK, latency_ms=np.inf), snapshot(900.0, job, lag=0.0)) == NoChange("no source lags")
    idle = decide(QUICK, snapshot(500.0, job, lag=0.0))
    assert isinstance(idle, NoChange) and "it is slow, but no task is saturated" in idle.reason


def test_the_most_lagged_source_comes_first_and_a_source_with_room_hides_no_other() -> None:
    """Two sources lag, by ten hours and by one; each has a branch of its own, and both branches are short."""
    dag = Dag(
        [1000.0, 1000.0], 0, [[1e9], [1e9], [400.0], [300.0]], [[1.0]] * 4, [(0, 2, 1.0, FREE), (1, 3, 1.0, FREE)]
    )
    state = dag_snapshot(dag)
    both = replace(state, partitions=replace(state.partitions, end_offset=np.array([36e6, 3.6e6])))
    plan = decide(QUICK, both)
    assert isinstance(plan, RescalePlan) and plan.tasks == (TaskSize(2, 3),)
    wide = dag_snapshot(replace(dag, rates=[[1e9], [1e9], [4000.0], [300.0]]))
    plan = decide(QUICK, replace(wide, partitions=both.partitions))
    assert isinstance(plan, RescalePlan) and plan.tasks == (TaskSize(3, 4),)


def test_routes_into_a_task_regard_what_its_instances_forward_to() -> None:
    """Both tasks have room for 2,000 rows a second, but only instance by instance for 1,000 and 900."""
    rates = [[1e9], [1500.0, 1000.0], [1000.0, 1500.0]]
    edges = [(0, 1, 1.0, FREE), (1, 2, 1.0, FORWARD)]
    dag = Dag([1900.0], 0, rates, [[1.0], [0.9, 0.1], [0.9, 0.1]], edges)
    plan = decide(QUICK, dag_snapshot(dag))
    assert isinstance(plan, RescalePlan) and plan.tasks == ()
    (route,) = plan.routes
    assert route.edge == 0 and np.all(np.array(route.shares) * 1900 <= 1000 * (1 + 1e-6))
    plan = decide(QUICK, dag_snapshot(replace(dag, offered=[2100.0])))
    assert isinstance(plan, RescalePlan) and plan.tasks == (TaskSize(1, 3), TaskSize(2, 3))


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_the_bottleneck_is_the_minimum_cut_of_networkx(seed: int) -> None:
    dag = random_dag(seed)
    value, cut = minimum_cut(dag)
    plan = decide(replace(QUICK, saturated=1.0), dag_snapshot(dag))
    if value >= 1 - 1e-6:
        assert getattr(plan, "tasks", ()) == () and "of the need" in plan.reason and "bottleneck" not in plan.reason
        return
    assert isinstance(plan, RescalePlan)
    assert f"({paced(dag):.3g} of the need)" in plan.reason
    assert {size.task for size in plan.tasks} == cut | narrowest(dag)


def test_the_network_is_that_of_the_whole_graph_below_the_lagging_source() -> None:
    """Rows of two sources meet in a join, and go to two ends: all that is short behind the split is named at once."""
    edges = [(0, 2, 1.0, FREE), (1, 3, 1.0, FREE), (2, 4, 1.0, FREE), (3, 4, 1.0, FREE), (4, 5, 1.0, FREE)]
    edges += [(4, 6, 0.5, FREE)]
    rates = [[1e9], [1e9], [3000.0], [100.0], [5000.0], [800.0], [700.0]]
    plan = decide(QUICK, dag_snapshot(Dag([1000.0, 1000.0], 0, rates, [[1.0]] * 7, edges)))
    assert isinstance(plan, RescalePlan)
    # What leads from the other source is not its, though it is the narrowest; the join has 2,000 to take.
    assert plan.tasks == (TaskSize(5, 3), TaskSize(6, 2)) and "bottleneck 't5', 't6' (0.4 of the need)" in plan.reason


def test_what_waits_for_a_core_that_another_has_is_not_blamed() -> None:
    """The source works for 0.05 of the time, and waits for the loop in which the count works for all the rest."""
    job = [Stage("source", [1e4]), Stage("count", [500.0], free=False)]
    state = snapshot(600.0, job)
    wall_ns = state.window_s * 1e9
    full = replace(
        state.instances,
        busy_ns=np.array([0.05, 0.95]) * wall_ns,
        core_wait_ns=np.array([0.95, 0.05]) * wall_ns,
    )
    plan = decide(QUICK, replace(state, instances=full))
    assert isinstance(plan, RescalePlan) and plan.tasks == (TaskSize(1, 2),) and "'source'" not in plan.reason
    even = replace(full, busy_ns=np.array([0.5, 0.5]) * wall_ns, core_wait_ns=np.array([0.5, 0.5]) * wall_ns)
    both = decide(QUICK, replace(state, instances=even))
    assert isinstance(both, RescalePlan) and both.tasks == (TaskSize(0, 2), TaskSize(1, 2))


def test_one_action_settles_before_the_next() -> None:
    policy, job = FlinkEr(drain_s=1e12), [Stage("source", [1e6]), Stage("map", [400.0])]
    plan, memory = policy.decide(snapshot(1000.0, job, number=1), policy.start())
    assert isinstance(plan, RescalePlan)
    plan, memory = policy.decide(snapshot(1000.0, job, number=2), memory)
    assert plan == NoChange("job: the last action settles")
    plan, _ = policy.decide(snapshot(1000.0, job, number=8), memory)
    assert isinstance(plan, RescalePlan)


def test_what_was_not_measured_is_said() -> None:
    whole = snapshot(1000.0, [Stage("source", [1e6]), Stage("map", [400.0])]).as_dict()
    for group, column, said in (
        ("partitions", "end_offset", "end offsets"),
        ("outputs", "records_out", "what must enter task 'map' of 'job'"),
        ("partitions", "appended", "what must enter task 'source' of 'job'"),
    ):
        state = ClusterSnapshot.from_dict({**whole, group: {**whole[group], column: None}})
        decision = decide(QUICK, state)
        assert isinstance(decision, NoChange) and decision.reason.startswith(f"not measured: {said}")


def test_the_pool_is_what_is_free_where_instances_can_be() -> None:
    """Nobody measures the CPU of the process that started a job; an instance cannot be there."""
    state = snapshot(1000.0, [Stage("source", [1e6]), Stage("map", [400.0])])
    caller = (("tm-0", "tm-1", "caller"), np.array([1.0, 1.0, 0.0]))
    for percent, sizes in (([60.0, 0.0, np.nan], (TaskSize(1, 2),)), ([60.0, np.nan, np.nan], (TaskSize(1, 3),))):
        plan = decide(QUICK, replace(state, machines=MachineColumns(*caller, np.array(percent))))
        assert isinstance(plan, RescalePlan) and plan.tasks == sizes


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="one of true, paper, literal"):
        FlinkEr(detector="guess")
    with pytest.raises(ValueError, match=r"\[0.85, 1\]"):
        FlinkEr(saturated=0.5)


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_what_is_asked_for_carries_the_need(seed: int) -> None:
    """Whatever grows or moves, every bottleneck can carry the need afterwards, or a hot key is named."""
    random = np.random.default_rng(seed)
    stages = [Stage("source", [1e9])]
    for number in range(int(random.integers(1, 4))):
        count = int(random.integers(1, 5))
        rates = random.uniform(100, 2000, count).tolist()
        stages.append(Stage(f"t{number}", rates, float(random.uniform(0.2, 3)), free=bool(random.random() < 0.5)))
    offered = float(random.uniform(100, 5000))
    state = snapshot(offered, stages)
    plan = decide(QUICK, state)
    needs = np.cumprod([1.0] + [stage.gain for stage in stages])[:-1] * offered
    sizes = {size.task: size.parallelism for size in getattr(plan, "tasks", ())}
    routes = {route.edge + 1: np.array(route.shares) for route in getattr(plan, "routes", ())}
    for task, (stage, need) in enumerate(zip(stages, needs, strict=True)):
        rates = np.array(stage.rates)
        whole = rates.sum() if stage.free or task == 0 else rates.min() * len(rates)
        if task in sizes:
            assert sizes[task] * whole / len(rates) >= need * (1 - 1e-9) > whole * (1 - 1e-6)
        elif task in routes:
            assert np.all(routes[task] * min(need, whole) <= rates * (1 + 1e-6))
        elif task and not sizes:
            assert rates.min() * len(rates) >= need * (1 - 1e-6) or whole >= need * (1 - 1e-6)
