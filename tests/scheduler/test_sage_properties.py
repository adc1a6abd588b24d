"""What Sage promises of any application: one action at a time, the first rule first, its log replays.

Every case is fifty applications at once, each with needs of its own (docs/design/papers/sage.md 5).
"""

import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import ApplicationSize, Decision, RescalePlan
from penstock.scheduler.action_log import ActionLog, EntryKind, read_log
from penstock.scheduler.observations import MetricHistory
from penstock.scheduler.resizer import Allocation
from penstock.scheduler.rule_window import RuleWindow, rule_window
from penstock.scheduler.sage import Sage
from penstock.scheduler.sizing_rule import Resource, Rule
from tests.papers_cases import cases
from tests.scheduler.sage_applications import GB, QUIET, TICK_S, snapshot

SEEDS = st.integers(0, 2**32 - 1)
AT_ONCE = 50
SETTLE_TICKS = 5
KEYS = ("cores", "memory", "heap", "threads")
START = Allocation(QUIET["cores"], QUIET["memory"], QUIET["heap"], int(QUIET["threads"]))


def needs(random: np.random.Generator) -> np.ndarray:
    """Return what each application needs of heap, of memory beside it, of cores and of threads."""
    return random.uniform([1 * GB, 1 * GB, 0.5, 1.0], [8 * GB, 8 * GB, 12.0, 30.0], (AT_ONCE, 4))


def used(need: np.ndarray, has: Allocation, number: int) -> Mapping[str, float]:
    """Return what an application shows of itself at a size: what one resource lacks stops the rows."""
    heap, outside, cores, threads = need.tolist()
    share = min(1.0, has.threads / threads, has.cores / cores)
    return {
        "cores": has.cores,
        "memory": has.memory_bytes,
        "heap": has.heap_bytes,
        "threads": has.threads,
        "heap_used": min(heap, has.heap_bytes) * 0.9,
        "heap_committed": min(heap, has.heap_bytes),
        "gc": 0.01 if has.heap_bytes >= heap else 0.3,
        "resident": min(heap + outside, has.memory_bytes),
        "cpu": min(cores, has.cores),
        "throttled": 0.0 if has.cores >= cores else 0.2,
        "busy_threads": min(threads, has.threads),
        "consumed": 1000 * share,
        "backlog": 0.0 if share >= 1 else 1e5 * (number + 1),
    }


def driven(
    random: np.random.Generator, ticks: int, delays: np.ndarray, log: ActionLog | None = None
) -> tuple[list[Allocation], list[list[int]]]:
    """Let Sage size applications, each of whose actions takes so many ticks; return sizes and when it acted on each."""
    policy, own = Sage(), needs(random)
    memory, sizes = policy.start(), [START] * AT_ONCE
    acted: list[list[int]] = [[] for _ in range(AT_ONCE)]
    under_way: dict[int, list[ApplicationSize]] = {}
    for number in range(ticks):
        for change in under_way.pop(number, []):
            sizes[change.application] = sizes[change.application].after(change)
        now = snapshot(number, {f"a{i}": used(own[i], sizes[i], number) for i in range(AT_ONCE)})
        decision, memory = policy.decide(now, memory)
        if log is not None and isinstance(decision, RescalePlan):
            log.decision(now, "sage", decision)
        for change in changes_of(decision):
            acted[change.application].append(number)
            # An action that takes no time has its effect before the next snapshot.
            under_way.setdefault(number + max(1, int(delays[change.application])), []).append(change)
    for late in under_way.values():
        for change in late:
            sizes[change.application] = sizes[change.application].after(change)
    return sizes, acted


def changes_of(decision: Decision) -> tuple[ApplicationSize, ...]:
    return decision.applications if isinstance(decision, RescalePlan) else ()


@settings(max_examples=max(1, cases() // AT_ONCE))
@given(SEEDS)
def test_an_application_has_at_most_one_action_in_flight(seed: int) -> None:
    """And after each it settles. An action that is lost is not waited for longer than three times as long."""
    random = np.random.default_rng(seed)
    delays = random.integers(0, 3 * SETTLE_TICKS, AT_ONCE)
    _, acted = driven(random, 90, delays)
    assert sum(len(ticks) for ticks in acted) > AT_ONCE
    for ticks, delay in zip(acted, delays.tolist(), strict=True):
        assert all(later - earlier >= max(SETTLE_TICKS, delay) for earlier, later in pairwise(ticks))


@settings(max_examples=max(1, cases() // AT_ONCE))
@given(SEEDS)
def test_a_rule_fires_where_none_of_higher_priority_would_and_then_it_does(seed: int) -> None:
    """Held against each rule by itself on its own window, until the first action on an application."""
    random = np.random.default_rng(seed)
    policy, ticks = Sage(), 35
    memory, history = policy.start(), MetricHistory.empty()
    # Uses swing about levels between far too much and hardly any of what was given.
    level = random.choice([0.3, 0.8, 0.9, 0.95], (AT_ONCE, 5))
    rises = random.random(AT_ONCE) < 0.3
    waiting = set(range(AT_ONCE))
    for number in range(ticks):
        swing = np.minimum(level * random.uniform(0.95, 1.05, level.shape), 1.0)
        now = snapshot(number, {f"a{i}": swung(swing[i], bool(rises[i]), number) for i in range(AT_ONCE)})
        history = history.with_snapshot(now, TICK_S * ticks)
        expected: dict[int, str] = {}
        nearly = {resource: set[int]() for resource in Resource}
        for rule in policy.rules():
            fires = set[int]()
            if number + 1 >= rule.window_s / TICK_S:
                fires = asks(rule, policy, rule_window(history, now, rule.most_s, TICK_S))
                for place in fires - set().union(*(nearly[resource] for resource in rule.rests_on)):
                    expected.setdefault(place, rule.name)
            if rule.goes_first:
                # What its last tick asks for, and its window does not yet, is waited for.
                nearly[rule.resource] |= asks(rule, policy, rule_window(history, now, TICK_S, TICK_S)) - fires
        decision, memory = policy.decide(now, memory)
        told = [part.split(": ", 1)[1].split(",")[0] for part in decision.reason.split("; ") if ": " in part]
        fired = dict(zip([size.application for size in changes_of(decision)], told, strict=True))
        assert {i: rule for i, rule in fired.items() if i in waiting} == {
            i: rule for i, rule in expected.items() if i in waiting
        }
        waiting -= fired.keys()
    assert len(waiting) < AT_ONCE


def asks(rule: Rule, policy: Sage, window: RuleWindow) -> set[int]:
    """Return the applications for which a rule would fire by a window."""
    return set(np.flatnonzero(rule.propose(window, policy.limits()).fires).tolist())


def swung(swing: np.ndarray, rises: bool, number: int) -> Mapping[str, float]:
    heap, committed, memory, cores, threads = swing.tolist()
    return {
        "heap_used": QUIET["heap"] * min(heap, committed),
        "heap_committed": QUIET["heap"] * committed,
        "resident": QUIET["memory"] * memory,
        "cpu": QUIET["cores"] * cores,
        "busy_threads": QUIET["threads"] * threads,
        "backlog": 1e5 * (number + 1) if rises else 0.0,
    }


@settings(max_examples=max(1, cases() // AT_ONCE))
@given(SEEDS)
def test_the_log_rebuilds_the_sizes_also_if_a_line_is_applied_twice(seed: int) -> None:
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "actions.jsonl"
        with ActionLog(path) as log:
            sizes, acted = driven(random, 60, np.zeros(AT_ONCE), log)
        rebuilt = [START] * AT_ONCE
        for entry in read_log(path):
            if entry.kind is EntryKind.DECISION:
                for change in entry.content["decision"]["applications"]:
                    for _ in range(int(random.integers(1, 3))):
                        place = change["application"]
                        rebuilt[place] = rebuilt[place].after(ApplicationSize(**change))
    assert rebuilt == sizes and any(acted) and sizes != [START] * AT_ONCE
