"""Sage: memory before cores before parallelism, one action at a time, no way back and forth."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import NoChange, RescalePlan
from penstock.scheduler.sage import Sage
from penstock.scheduler.sizing import RULES, Limits, Resource
from tests.papers_cases import cases
from tests.scheduler.sage_applications import GB, QUIET, actions, simulate, snapshot

ORDER = [rule.name for rule in RULES]


def starved(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
    """Needs 6 GB of heap in 13 GB, 6 cores and 14 threads; less of one shows as more of the next."""
    heap_short = max(6 * GB / has["heap"] - 1, 0)
    cores = 6 * (1 + heap_short)
    rate = 1000 * min(1, has["threads"] / 14, has["cores"] / cores)
    return {
        "heap_used": min(6 * GB, has["heap"]),
        "heap_committed": min(6.2 * GB, has["heap"]),
        "gc": 0.02 + 0.3 * heap_short,
        "resident": min(13 * GB, has["memory"]),
        "cpu": min(cores, has["cores"]),
        "throttled": 0.0 if has["cores"] > cores else 0.2,
        "busy_threads": min(14, has["threads"]),
        "consumed": rate,
        "backlog": 0.0 if rate >= 1000 else 1e5 * (number + 1),
    }


def test_no_window_is_shorter_than_one_of_higher_priority() -> None:
    windows = [rule.window_s for rule in RULES]
    assert windows == sorted(windows) and [rule.resource for rule in RULES] == [*Resource, *Resource]


def test_what_lacks_everything_gets_memory_then_cores_then_threads() -> None:
    done = actions(simulate(Sage(), 120, {"a": starved}))
    first = [name for _, name in done]
    ups = [name for name in first if name.endswith("up")]
    assert ups == sorted(ups, key=ORDER.index) and set(ups) == {"heap up", "memory up", "CPU up", "parallelism up"}
    for kind in ("heap", "memory", "CPU", "parallelism"):
        assert first.count(f"{kind} down") <= 1
        if f"{kind} down" in first:
            assert first.index(f"{kind} down") > max(i for i, name in enumerate(first) if name == f"{kind} up")
    ticks = [tick for tick, _ in done]
    assert all(later - earlier >= 5 for earlier, later in pairwise(ticks))


def test_a_decision_is_one_resource_of_an_application() -> None:
    for _, decision in simulate(Sage(), 60, {"a": starved, "b": starved, "c": lambda number, has: {}}):
        if isinstance(decision, RescalePlan):
            named = [size.application for size in decision.applications]
            assert named == sorted(set(named)) and 2 not in named
            for size in decision.applications:
                changed = (size.cores, size.heap_bytes, size.memory_bytes, size.threads)
                assert sum(value is not None for value in changed) == 1


def test_an_application_in_bounds_is_left_alone() -> None:
    decided = simulate(Sage(), 90, {"a": lambda number, has: {}})
    assert {decision.reason for _, decision in decided} == {"no rule asks for anything"}


def test_a_shrink_is_one_step_to_the_peak() -> None:
    def idle(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        heap = {"heap_committed": 1 * GB, "heap_used": GB / 2, "resident": 2 * GB}
        return {**heap, "cpu": 1.0 + 0.5 * (number % 7 == 0), "busy_threads": 2.5}

    decided = simulate(Sage(), 200, {"a": idle})
    assert [name for _, name in actions(decided)] == ["heap down", "memory down", "CPU down", "parallelism down"]
    sizes = [decision.applications[0] for _, decision in decided if isinstance(decision, RescalePlan)]
    assert sizes[0].heap_bytes == pytest.approx(1.12 * GB)
    assert sizes[1].memory_bytes == pytest.approx(2.24 * GB)
    assert sizes[2].cores == pytest.approx(1.68) and sizes[3].threads == 3
    assert actions(decided)[0][0] == 29 and actions(decided)[-1][0] <= 60


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
    assert done[0][1] == "parallelism up" and 49 <= done[0][0] <= 52


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

    assert actions(simulate(Sage(guard="none"), 15, {"bends": bends})) == [(9, "parallelism up")]
    assert actions(simulate(Sage(guard="correlation"), 15, {"bends": bends})) == []

    def stays(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        late = max(number - 40, 0)
        return {"latency_ms": 5.0 + late, "backlog": 50.0 * late**2 + (number % 2), "consumed": 1000 - 5 * late}

    assert actions(simulate(Sage(guard="growth"), 70, {"stays": stays})) == []
    assert actions(simulate(Sage(guard="correlation"), 70, {"stays": stays}))[0][1] == "parallelism up"
    with pytest.raises(ValueError, match="guard = 'both' is none of growth, correlation, none"):
        Sage(guard="both")


def test_collections_are_a_share_of_the_work_whatever_its_size() -> None:
    """Of 4 busy cores 0.3 collect garbage: 7.5% of the time, though 30% of one core."""
    assert actions(simulate(Sage(), 40, {"a": lambda number, has: {"gc": 0.3, "cpu": 3.4}})) == []
    assert actions(simulate(Sage(), 40, {"a": lambda number, has: {"gc": 0.5, "cpu": 3.4}}))[0][1] == "heap up"


def test_collections_of_an_idle_application_are_no_reason_to_grow() -> None:
    """It works for 5 ms in a second, 1 ms of which collects garbage."""
    done = actions(simulate(Sage(), 60, {"a": lambda number, has: {"gc": 0.001, "cpu": 0.005}}))
    assert not any(name.endswith("up") for _, name in done)


def test_a_heap_shrinks_no_further_than_collections_allow() -> None:
    """1 GB lives of 4 GB: at what was committed, 1.5 GB, garbage would be collected in 13% of the time."""

    def uses(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        return {
            "heap_used": 1 * GB,
            "heap_committed": 1.5 * GB,
            "gc": 3.2 * 0.03 * 3 * GB / (has["heap"] - 1 * GB),
        }

    decided = simulate(Sage(), 200, {"a": uses})
    sizes = [decision.applications[0].heap_bytes for _, decision in decided if isinstance(decision, RescalePlan)]
    assert actions(decided)[0][1] == "heap down" and sizes[0] == pytest.approx((1 + 3 * 0.3 * 1.12) * GB)
    assert not any(name == "heap up" for _, name in actions(decided))


def test_what_is_made_up_for_after_an_action_is_no_peak() -> None:
    """Twice in half an hour all cores and threads are busy for a minute, just after an action."""

    def looks(settled_s: float) -> float:
        policy, memory = Sage(), Sage().start()
        asked = 0.0
        for number in range(40):
            busy = number % 15 == 0
            use = {"cpu": 4.0 if busy else 1.0, "busy_threads": 8.0 if busy else 2.0}
            now = snapshot(number, {"a": use})
            age = np.array([settled_s if busy else 1e4])
            now = replace(now, instances=replace(now.instances, settled_s=age))
            decision, memory = policy.decide(now, memory)
            if isinstance(decision, RescalePlan):
                asked = decision.applications[0].cores or asked
        return asked

    assert looks(60.0) == pytest.approx(1.12) and looks(1e4) == 0.0


def test_nothing_shrinks_under_a_backlog_that_is_never_told_from_catching_up() -> None:
    """Memory is half used; in half an hour the application is restarted again and again, or once, or lately."""

    def shrinks(settled_s: list[float], backlog: list[float]) -> list[int]:
        policy, memory, found = Sage(), Sage().start(), []
        for number, (age, behind) in enumerate(zip(settled_s, backlog, strict=True)):
            use = {"resident": 2 * GB, "heap_used": GB, "heap_committed": GB, "heap": 1.1 * GB, "backlog": behind}
            now = snapshot(number, {"a": use})
            now = replace(now, instances=replace(now.instances, settled_s=np.array([age])))
            decision, memory = policy.decide(now, memory)
            found += [number] if "memory down" in decision.reason else []
        return found[:1]

    behind, free = 1e6, 0.0
    assert shrinks([60.0] * 40, [behind] * 40) == []
    assert shrinks([400.0, *[60.0] * 39], [free, *[behind] * 39]) == []
    assert shrinks([60.0] * 5 + [400.0] * 35, [behind] * 5 + [free] * 35) == [29]
    assert shrinks([400.0] * 29 + [60.0] * 11, [free] * 29 + [behind] * 11) == []
    assert shrinks([400.0] * 40, [behind] + [free] * 39) == [30]


def test_throttling_without_a_known_backlog_is_no_reason_but_used_up_cores_are() -> None:
    def asked(use: Mapping[str, float]) -> list[str]:
        policy, memory, found = Sage(), Sage().start(), []
        for number in range(10):
            now = snapshot(number, {"a": use})
            now = replace(now, partitions=replace(now.partitions, end_offset=None))
            decision, memory = policy.decide(now, memory)
            found += [decision.reason.split(", ")[0]] if isinstance(decision, RescalePlan) else []
        return found

    assert asked({"cpu": 3.9, "throttled": 0.5}) == ["a: CPU up"]
    assert asked({"cpu": 3.2, "throttled": 0.5}) == []


def test_bursts_that_drain_in_time_ask_for_no_cores() -> None:
    def bursts(backlog: float) -> object:
        return lambda number, has: {"throttled": 1.0, "cpu": 3.4, "backlog": backlog * (number % 4 == 0)}

    assert actions(simulate(Sage(idle_backlog_s=10.0), 20, {"a": bursts(9000.0)})) == []
    assert actions(simulate(Sage(idle_backlog_s=10.0), 20, {"a": bursts(11000.0)}))[0][1] == "CPU up"


def test_threads_follow_the_input() -> None:
    def loaded(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        rate = 125.0 * has["threads"]
        return {
            "appended": 3000.0,
            "consumed": min(rate, 3000.0),
            "backlog": 1e5 * (number + 1) if rate < 3000 else 0.0,
        }

    decided = simulate(Sage(), 15, {"a": loaded})
    sizes = [decision.applications[0].threads for _, decision in decided if isinstance(decision, RescalePlan)]
    assert sizes == [27]


def test_what_was_not_measured_is_said_and_nothing_guessed() -> None:
    whole = snapshot(0, {"a": {}}).as_dict()
    whole["applications"]["gc_ns"] = None
    policy = Sage()
    decision, memory = policy.decide(type(snapshot(0, {"a": {}})).from_dict(whole), policy.start())
    assert isinstance(decision, NoChange) and decision.reason.startswith("not measured: gc")
    decision, _ = policy.decide(snapshot(1, {}), memory)
    assert decision == NoChange("there are no applications")


def test_bounds_that_would_swing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"up = 0.85 must be above 1 / \(1 \+ margin\) = 0.893"):
        Sage(up=0.85)
    with pytest.raises(ValueError, match="growth is above 1"):
        Limits(growth=1.0)


@settings(max_examples=cases() // 50)
@given(st.integers(0, 2**32 - 1))
def test_under_constant_load_nothing_goes_up_and_down(seed: int) -> None:
    """Fifty applications at once, each with needs of its own."""
    random = np.random.default_rng(seed)

    def application(need: np.ndarray) -> object:
        heap, outside, cores, threads = need

        def uses(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
            # Garbage is collected as often as the free heap fills.
            garbage = min(0.005 * heap / max(has["heap"] - 0.9 * heap, 0.02 * heap), 0.5)
            wanted = cores * (1 + garbage)
            share = min(1, has["threads"] / threads, has["cores"] / wanted)
            return {
                "heap_used": min(heap, has["heap"]) * 0.9,
                "heap_committed": min(heap, has["heap"]),
                "gc": garbage * min(cores, has["cores"]),
                "resident": min(heap + outside, has["memory"]),
                "cpu": min(wanted, has["cores"]),
                "throttled": 0.0 if has["cores"] >= wanted else 0.2,
                "busy_threads": min(threads, has["threads"]),
                "consumed": 1000 * share,
                "backlog": 0.0 if share >= 1 else 1e5 * (number + 1),
            }

        return uses

    needs = random.uniform([1 * GB, 1 * GB, 0.5, 1.0], [8 * GB, 8 * GB, 12.0, 30.0], (50, 4))
    decided = simulate(Sage(), 120, {f"a{i}": application(need) for i, need in enumerate(needs)})
    acted: dict[str, list[tuple[int, str]]] = {}
    for number, decision in decided:
        if isinstance(decision, RescalePlan):
            for part in decision.reason.split("; "):
                name, rest = part.split(": ", 1)
                acted.setdefault(name, []).append((number, rest.split(",")[0]))
    for done in acted.values():
        ticks = [tick for tick, _ in done]
        assert all(later - earlier >= 5 for earlier, later in pairwise(ticks))
        for kind in ("heap", "memory", "CPU", "parallelism"):
            own = [name for _, name in done if name.startswith(kind)]
            assert own == sorted(own, reverse=True), done
            assert own.count(f"{kind} down") <= 1, done
    assert all(isinstance(decision, NoChange) for number, decision in decided if number > 110)


def test_decisions_do_not_change_what_was_remembered() -> None:
    policy, memory = Sage(), Sage().start()
    for number in range(40):
        before = memory
        use = {**QUIET, **starved(number, QUIET)}
        first = policy.decide(snapshot(number, {"a": use}), before)
        again = policy.decide(snapshot(number, {"a": use}), before)
        assert first[0] == again[0]
        memory = first[1]
