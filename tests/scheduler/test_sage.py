"""Sage: memory before cores before parallelism, one action at a time, no way back and forth."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import NoChange, RescalePlan
from penstock.scheduler.growth_rules import CpuUp
from penstock.scheduler.observations import MetricHistory
from penstock.scheduler.rule_window import rule_window
from penstock.scheduler.sage import Sage
from penstock.scheduler.sizing import RULES
from penstock.scheduler.sizing_rule import Resource, RuleLimits
from tests.papers_cases import cases
from tests.scheduler.sage_applications import GB, QUIET, Uses, actions, simulate, snapshot

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


def test_cores_wait_while_the_last_tick_says_that_memory_is_short() -> None:
    """Cores lack from the first tick on, memory looks full a moment later: the mean of its window is still below."""

    def fills(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        full = 0.5 if number < 2 else 1.0
        return {
            "heap_used": full * min(has["heap"], 6 * GB), "resident": full * min(has["memory"], 12 * GB),
            "cpu": min(has["cores"], 6.0), "throttled": 4.0 if has["cores"] < 6 else 0.0, "backlog": 1e6,
        }  # fmt: skip

    done = [name for _, name in actions(simulate(Sage(), 60, {"a": fills})) if name.endswith("up")]
    assert done[0] in ("heap up", "memory up") and "CPU up" in done


def test_memory_that_is_only_nearly_full_keeps_nobody_waiting() -> None:
    """Full in every other tick, below the limit on the mean: what lacks cores gets them as soon as it would."""

    def swings(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        return {
            "heap_used": (0.95 if number % 2 else 0.85) * has["heap"], "cpu": min(has["cores"], 6.0),
            "throttled": 4.0 if has["cores"] < 6 else 0.0, "backlog": 1e6,
        }  # fmt: skip

    done = actions(simulate(Sage(), 12, {"a": swings}))
    assert done[0][1] == "CPU up" and done[0][0] <= 5


def test_a_backlog_that_rises_while_threads_wait_for_cores_is_no_need_for_threads() -> None:
    """A loop that rests leaves a tenth of what it may use: the cores do not look used up, and rows are not late yet."""

    def throttled(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        obtained = min(4.4, 0.9 * has["cores"])
        lacks = obtained < 4.4
        behind = 100.0 * (number + 1) if lacks else 0.0
        return {
            "cpu": obtained, "throttled": 3.0 if lacks else 0.0, "backlog": behind, "consumed": 1000 * obtained / 4.4
        }  # fmt: skip

    done = actions(simulate(Sage(idle_backlog_s=1e5), 60, {"a": throttled}))
    assert [name for _, name in done if name.endswith("up")] == ["CPU up"] and done[0][0] < 10


@pytest.mark.parametrize("needs", [4.2, 4.6, 5.0, 5.6])
def test_cores_grow_to_the_need_and_not_beyond_it(needs: float) -> None:
    """Steps of 1.5 would end up to half above it, which is shrunk only from 1.4 on."""
    waits = [0.0]

    def works(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        consumed = min(1000.0 * has["cores"] / needs, 1000.0 + waits[0] / 60.0)
        waits[0] += 60.0 * (1000.0 - consumed)
        return {
            "cpu": needs * consumed / 1000.0, "throttled": 0.5 if waits[0] > 1e-6 else 0.0, "backlog": waits[0],
            "consumed": consumed,
        }  # fmt: skip

    decided = simulate(Sage(), 120, {"a": works})
    assert {name for _, name in actions(decided)} <= {"CPU up", "CPU down"} and waits[0] < 1e-6
    plans = [decision for _, decision in decided if isinstance(decision, RescalePlan)]
    (last,) = plans[-1].applications
    assert last.cores is not None and 1.0 < last.cores / needs <= 1.12 + 1e-9, "the margin works off what waits"


@pytest.mark.parametrize(("loses", "grows"), [(0.0, False), (60.0, True)])
def test_cores_for_a_backlog_that_does_not_fall_are_not_enough(loses: float, grows: bool) -> None:
    """As where what is given is not all used. What drains in time by the margin asks for no more."""
    late = 5e4

    def works(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        behind = late - (60.0 - loses) * 10.0 * number
        return {"cpu": 0.89 * 4.0, "throttled": 0.5, "backlog": behind, "consumed": 1000.0, "appended": 1000.0}

    decided = simulate(Sage(), 20, {"a": works})
    assert bool([name for _, name in actions(decided) if name == "CPU up"]) is grows


@pytest.mark.parametrize("needs", [3.4, 3.55, 3.7, 3.95])
@pytest.mark.parametrize("behind", [0.0, 90.0, 110.0])
def test_cores_that_are_used_up_grow_where_rows_wait_by_the_margin_and_no_more(needs: float, behind: float) -> None:
    """What a shrink leaves, the need and the margin, is no reason to grow: it is used for more than `up`."""
    decided = simulate(Sage(), 60, {"a": lambda number, has: {"cpu": needs, "backlog": behind}})
    grown = [
        size.cores for _, decision in decided if isinstance(decision, RescalePlan) for size in decision.applications
    ]
    # A tenth of what the bound of latency allows is a hundred rows.
    is_short = 1.12 * needs > 4.0 and behind > 100
    assert grown == ([pytest.approx(1.12 * needs, rel=1e-3)] if is_short else [])


@pytest.mark.parametrize(
    ("changes", "grows"),
    [
        ({}, False),
        ({"backlog": [0.0, 0.0, 110.0, 0.0, 0.0]}, True),
        ({"backlog": [0.0, 0.0, np.nan, 0.0, 0.0]}, True),
        ({"shed": [0.0, 0.2, 0.0, 0.0, 0.0]}, True),
        ({"partitions": None}, True),
    ],
    ids=("it keeps up", "rows wait for a while", "not known for a while", "rows were shed", "no log is read"),
)
def test_cores_that_are_used_up_suffice_while_it_is_known_that_rows_never_wait(
    changes: Mapping[str, Any], grows: bool
) -> None:
    history = MetricHistory.empty()
    for number in range(5):
        now = snapshot(number, {"a": {"cpu": 3.99}})
        history = history.with_snapshot(now, 300.0)
    window, samples = rule_window(history, now, 300.0, 60.0), dict(changes)
    if "partitions" in samples:
        window = replace(window, partitions=np.array([np.nan]))
        del samples["partitions"]
    columns = {name: np.array(values)[:, np.newaxis] for name, values in samples.items()}
    window = replace(window, samples=replace(window.samples, **columns))
    assert CpuUp().propose(window, RuleLimits()).fires.tolist() == [grows]


def test_rows_that_are_late_once_ask_for_threads_unless_cores_lack_right_after() -> None:
    def burst(throttled: float) -> Uses:
        def uses(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
            if number == 30:
                return {"appended": 2000.0, "consumed": 1140.0, "backlog": 5e4, "busy_threads": 8.0}
            return {"throttled": throttled} if number == 31 else {}

        return uses

    seen = {lack: [name for _, name in actions(simulate(Sage(), 45, {"a": burst(lack)}))] for lack in (0.0, 4.0)}
    assert "parallelism up" in seen[0.0] and "parallelism up" not in seen[4.0]


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
        return {**heap, "gc": 0.0, "cpu": 1.0 + 0.5 * (number % 7 == 0), "busy_threads": 2.5}

    decided = simulate(Sage(), 200, {"a": idle})
    assert [name for _, name in actions(decided)] == ["heap down", "memory down", "CPU down", "parallelism down"]
    sizes = [decision.applications[0] for _, decision in decided if isinstance(decision, RescalePlan)]
    assert sizes[0].heap_bytes == pytest.approx(1.12 * GB)
    assert sizes[1].memory_bytes == pytest.approx(2.24 * GB)
    # A second of usual work may wait: 1.5 x 1.12 x 60 s, less 1 s x 1.09, in 60 s.
    assert sizes[2].cores == pytest.approx(1.68, abs=0.03) and sizes[3].threads == 3
    assert actions(decided)[0][0] == 29 and actions(decided)[-1][0] <= 60


def test_what_was_not_measured_is_said_and_nothing_guessed() -> None:
    whole = snapshot(0, {"a": {}}).as_dict()
    whole["applications"]["gc_ns"] = None
    policy = Sage()
    decision, memory = policy.decide(type(snapshot(0, {"a": {}})).from_dict(whole), policy.start())
    assert isinstance(decision, NoChange) and decision.reason.startswith("not measured: gc")
    decision, _ = policy.decide(snapshot(1, {}), memory)
    assert decision == NoChange("there are no applications")


def test_a_reading_that_is_missing_now_and_then_does_not_keep_rules_from_being_tried() -> None:
    def short(lost: tuple[int, ...]) -> Uses:
        def uses(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
            used = {"cpu": has["cores"], "throttled": 0.2, "kills": 0.0}
            read = dict.fromkeys(used, np.nan) if number % 5 in lost else used
            return {**read, "consumed": 500.0, "backlog": 1e5 * (number + 1)}

        return uses

    whole, every_fifth, two_in_a_row = (actions(simulate(Sage(), 8, {"a": short(lost)})) for lost in ((), (2,), (2, 3)))
    assert whole == every_fifth == [(4, "CPU up")] and two_in_a_row == []
    # The last reading is not guessed: what is to be decided on was measured.
    assert actions(simulate(Sage(), 5, {"a": short((4,))})) == []


def test_a_figure_that_is_missing_is_the_one_before_it_and_a_kill_is_none() -> None:
    history = MetricHistory.empty()
    for number, (used, kills) in enumerate([(1.0, 1.0), (np.nan, np.nan), (3.0, 0.0), (np.nan, 2.0), (np.nan, 0.0)]):
        history = history.with_snapshot(snapshot(number, {"a": {"cpu": used, "kills": kills}}), 1e9)
    assert history.windows.cpu.ravel().tolist() == pytest.approx([1.0, 1.0, 3.0, np.nan, np.nan], nan_ok=True)
    assert history.windows.kills.ravel().tolist() == [1.0, 0.0, 0.0, 2.0, 0.0]


def test_bounds_that_would_swing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"up = 0.85 must be above 1 / \(1 \+ margin\) = 0.893"):
        Sage(up=0.85)
    with pytest.raises(ValueError, match="growth is above 1"):
        RuleLimits(growth=1.0)


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
