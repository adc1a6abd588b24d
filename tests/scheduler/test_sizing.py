"""What the rules of Sage take for a reason, and what they set resources to."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from penstock.model.plan import Decision, NoChange, RescalePlan
from penstock.model.snapshot import PartitionColumns
from penstock.scheduler.sage import Sage
from tests.scheduler.sage_applications import GB, TICK_S, Uses, actions, simulate, snapshot


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
            "resident": 2 * GB,
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

    assert looks(30.0) == pytest.approx(1.12) and looks(1e4) == 0.0


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
    """Of 8,100 rows that come in ten usual seconds so many may wait."""

    def bursts(backlog: float) -> Uses:
        def uses(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
            if number % 4:
                return {"appended": 700.0, "consumed": 700.0, "cpu": 2.73}
            burst = {"appended": 1000.0 + backlog / TICK_S, "consumed": 1000.0, "cpu": 3.9}
            return {**burst, "throttled": 1.0, "backlog": backlog}

        return uses

    assert actions(simulate(Sage(idle_backlog_s=10.0), 20, {"a": bursts(8000.0)})) == []
    assert actions(simulate(Sage(idle_backlog_s=10.0), 20, {"a": bursts(11000.0)}))[0][1] == "CPU up"


def test_cores_that_make_up_for_a_backlog_in_time_are_enough() -> None:
    """All four cores are used for half an hour; two of them do what comes."""

    def behind(rows: float) -> Uses:
        def uses(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
            left = max(0.0, rows - 500 * TICK_S * number)
            return {"appended": 500.0, "consumed": 1000.0, "cpu": 3.99, "throttled": 1.0, "backlog": left}

        return uses

    assert actions(simulate(Sage(), 25, {"a": behind(8e5)})) == []
    assert actions(simulate(Sage(), 25, {"a": behind(2e6)}))[0][1] == "CPU up"


def shared(threads: float, partitions: int, backlog: float) -> Decision:
    """Return the last decision on an application whose rows pile up with all threads busy and cores to spare."""
    policy, memory = Sage(idle_backlog_s=10.0), Sage().start()
    for number in range(10):
        use = {"threads": threads, "busy_threads": threads, "appended": 1000.0, "consumed": 900.0, "backlog": backlog}
        now = snapshot(number, {"a": use})
        none = np.zeros(partitions)
        behind = PartitionColumns(
            none.astype(np.int32),
            appended=none + 6e4 / partitions,
            consumed=none + 5.4e4 / partitions,
            end_offset=none + backlog / partitions,
            position=none,
        )
        decision, memory = policy.decide(replace(now, partitions=behind), memory)
    return decision


def test_a_backlog_beyond_the_bound_is_a_reason_for_threads_though_it_does_not_rise() -> None:
    assert isinstance(shared(8, 16, 9_000.0), NoChange)
    assert isinstance(decision := shared(8, 16, 11_000.0), RescalePlan)
    assert decision.reason.startswith("a: parallelism up")


def test_threads_share_partitions_so_that_the_fullest_is_not_too_full() -> None:
    """Ten would do of equal work; of 16 partitions they would read two each, or one: so 16 threads."""
    sizes = [
        decision.applications[0].threads for n in (16, 20) if isinstance(decision := shared(8, n, 2e4), RescalePlan)
    ]
    assert sizes == [16, 10]


def test_threads_follow_the_input() -> None:
    def loaded(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        rate = 125.0 * has["threads"]
        return {
            "appended": 3000.0,
            "consumed": min(rate, 3000.0),
            "busy_threads": has["threads"],
            "backlog": 1e5 * (number + 1) if rate < 3000 else 0.0,
        }

    decided = simulate(Sage(), 15, {"a": loaded})
    sizes = [decision.applications[0].threads for _, decision in decided if isinstance(decision, RescalePlan)]
    # 24 and the margin for the input, 4.4 to make up for a million rows in half an hour.
    assert sizes == [32]
