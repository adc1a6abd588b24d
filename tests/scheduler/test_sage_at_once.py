"""Sage without its waits: several resources in one action where each has evidence of its own, in order where not."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import Decision, RescalePlan
from penstock.scheduler.concurrent_rules import CONCURRENT_RULES
from penstock.scheduler.sage import Sage
from penstock.scheduler.sage_at_once import SageAtOnce
from penstock.scheduler.sizing import RULES
from tests.papers_cases import cases
from tests.scheduler.sage_applications import GB, QUIET, TICK_S, actions, simulate, snapshot


def test_the_order_and_resources_are_those_of_the_paper() -> None:
    assert [rule.resource for rule in CONCURRENT_RULES] == [rule.resource for rule in RULES]
    assert [rule.name for rule in CONCURRENT_RULES] == [rule.name for rule in RULES]


def test_cores_and_threads_grow_in_one_action_to_what_comes() -> None:
    """Twice the rows come that four cores and eight threads can do; half of the time it was cores that lacked."""

    def loaded(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        by_cores = number % 2 == 0 and has["cores"] < 8
        enough = has["cores"] >= 8 and has["threads"] >= 16
        return {
            "appended": 2000.0,
            "consumed": 2000.0 if enough else 1000.0,
            "cpu": 8.0 if enough else 4.0,
            "throttled": 0.5 if by_cores else 0.0,
            "busy_threads": 16.0 if enough else 8.0,
            "backlog": 0.0 if enough else 6e4 * (number + 1),
        }

    decided = simulate(SageAtOnce(), 20, {"a": loaded})
    assert actions(decided) == [(1, "CPU up"), (1, "parallelism up")]
    [plan] = [decision for _, decision in decided if isinstance(decision, RescalePlan)]
    cores = next(size.cores for size in plan.applications if size.cores is not None)
    assert cores == pytest.approx(8 * 1.12, rel=0.03)
    serial = actions(simulate(Sage(), 20, {"a": loaded}))
    assert serial[0][0] >= 4 and len({number for number, _ in serial}) == len(serial)


def test_what_rests_on_a_heap_that_grows_waits_for_it() -> None:
    """Garbage takes 3 of 4 cores, which are used up; with half more heap it takes one."""

    def short(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        full = has["heap"] < 5 * GB
        return {
            "heap_used": 3 * GB,
            "cpu": 3.9 if full else 1.9,
            "gc": 0.75 if full else 0.05,
            "resident": 7.6 * GB if full else 6.0 * GB,
        }

    assert actions(simulate(SageAtOnce(), 15, {"a": short})) == [(1, "heap up")]


def test_a_peak_that_is_seen_once_is_waited_for_and_one_that_is_seen_twice_is_not() -> None:
    def first(peaks: set[int]) -> int:
        def idle(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
            rate = 1000.0 if number in peaks else 300.0
            return {"appended": rate, "consumed": rate, "cpu": 0.0016 * rate}

        done = actions(simulate(SageAtOnce(), 40, {"a": idle}))
        return next(number for number, name in done if name == "CPU down")

    assert first({4, 14, 24, 34}) == 19 and first({14, 34}) == 29


def short_of_cores(number: int) -> Mapping[str, float]:
    return {
        "cpu": 4.0, "throttled": 0.5, "appended": 1500.0, "consumed": 1000.0, "backlog": 6e4 * (number + 1),
    }  # fmt: skip


@pytest.mark.parametrize("begins", [0, 40])
def test_who_comes_later_waits_no_longer_than_who_was_there(begins: int) -> None:
    policy = SageAtOnce()
    memory, acted = policy.start(), []
    for number in range(begins + 10):
        late = {"late": short_of_cores(number - begins)} if number >= begins else {}
        decision, memory = policy.decide(snapshot(number, {"early": {}, **late}), memory)
        acted += [number] if isinstance(decision, RescalePlan) else []
    assert acted[0] == begins + 1


@pytest.mark.parametrize(("lost", "acts"), [((), 10), ((9,), 10), ((8, 9), 11), ((9, 10), 12)])
def test_readings_that_were_lost_delay_by_no_more_than_the_least_window(lost: Sequence[int], acts: int) -> None:
    policy = SageAtOnce()
    memory, acted = policy.start(), []
    for number in range(20):
        now = short_of_cores(number - 10) if number >= 10 else {}
        missing = {"cpu": float("nan")} if number in lost else {}
        decision, memory = policy.decide(snapshot(number, {"a": {**now, **missing}}), memory)
        acted += [number] if isinstance(decision, RescalePlan) else []
    assert acted[0] == acts


@pytest.mark.parametrize("policy", [Sage(), SageAtOnce()], ids=["one by one", "at once"])
def test_an_application_to_which_nothing_comes_shrinks(policy: Sage) -> None:
    def silent(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        return {"appended": 0.0, "consumed": 0.0, "cpu": 0.05, "busy_threads": 0.01}

    names = [name for _, name in actions(simulate(policy, 60, {"a": silent}))]
    assert names == ["CPU down", "parallelism down"]


@pytest.mark.parametrize("tick_s", [0.0, -1.0, float("nan"), 300.0])
def test_ticks_are_so_short_that_a_backlog_can_be_seen_to_rise(tick_s: float) -> None:
    with pytest.raises(ValueError, match="tick_s"):
        Sage(tick_s=tick_s)


def sized(need: np.ndarray, has: Mapping[str, float]) -> Mapping[str, float]:
    """Return what an application shows of itself at a size under a constant load."""
    heap, outside, cores, threads = need.tolist()
    share = min(1.0, has["threads"] / threads, has["cores"] / cores)
    return {
        "heap_used": min(heap, has["heap"]) * 0.9,
        "heap_committed": min(heap, has["heap"]),
        "gc": 0.01 if has["heap"] >= heap else 0.3 * max(1.0, cores * share),
        "resident": min(heap + outside, has["memory"]),
        "cpu": cores * share,
        "throttled": 0.2 if has["cores"] / cores == share < 1 else 0.0,
        "busy_threads": threads * share,
        "consumed": 1000.0 * share,
    }


@settings(max_examples=max(1, cases() // 50))
@given(st.integers(0, 2**32 - 1))
def test_under_constant_load_all_come_to_rest_and_no_shrink_is_taken_back(seed: int) -> None:
    """Fifty applications at once, each with needs of its own; what waits is made up for."""
    needs = np.random.default_rng(seed).uniform([1 * GB, 1 * GB, 0.5, 1.0], [8 * GB, 8 * GB, 12.0, 30.0], (50, 4))
    policy = SageAtOnce()
    memory = policy.start()
    keys = ("cores", "memory", "heap", "threads")
    given_now = [{key: QUIET[key] for key in keys} for _ in needs]
    backlog = np.zeros(len(needs))
    acted: list[list[tuple[int, str]]] = [[] for _ in needs]
    for number in range(120):
        shown = [dict(sized(need, has)) for need, has in zip(needs, given_now, strict=True)]
        for place, use in enumerate(shown):
            spare = use["consumed"] * (min(given_now[place]["cores"] / use["cpu"], 1.2) - 1)
            backlog[place] = max(0.0, backlog[place] + TICK_S * (1000.0 - use["consumed"] - spare))
        now = snapshot(
            number,
            {f"a{i}": {**given_now[i], **use, "backlog": float(backlog[i])} for i, use in enumerate(shown)},
        )
        decision, memory = policy.decide(now, memory)
        apply(decision, given_now, acted, number)
    assert any(acted)
    for done in acted:
        for kind in ("heap", "memory", "CPU", "parallelism"):
            own = [name for _, name in done if name.startswith(kind)]
            assert own == sorted(own, reverse=True), done
        assert all(number <= 110 for number, _ in done), done


def apply(
    decision: Decision, given_now: list[dict[str, float]], acted: list[list[tuple[int, str]]], number: int
) -> None:
    if not isinstance(decision, RescalePlan):
        return
    names = [part.split(": ", 1)[1].split(",")[0] for part in decision.reason.split("; ")]
    for size, name in zip(decision.applications, names, strict=True):
        changes = {
            "cores": size.cores,
            "heap": size.heap_bytes,
            "memory": size.memory_bytes,
            "threads": size.threads,
        }
        given_now[size.application] |= {key: value for key, value in changes.items() if value is not None}
        acted[size.application].append((number, name))
