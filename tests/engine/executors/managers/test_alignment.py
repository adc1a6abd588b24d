"""Sources of several task managers side by side: none far ahead, none held for nothing, whatever messages take."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import END_OF_TIME_US
from penstock.engine.dataflow.headway import WINDOW_NS
from penstock.engine.dataflow.source_alignment import SourceAlignment
from penstock.engine.executors.managers.alignment import FIRST_REPORT_NS, REPORT_NS, ProgressRelay, ProgressReports
from penstock.engine.executors.managers.messages import Progress, RegionProgress
from penstock.model.ids import TaskId
from tests.engine.executors.managers.simulated_alignment import MS, TICK_MS, Cluster, Manager, SimulatedSource

AHEAD_MS = (WINDOW_NS + REPORT_NS) // MS
SEEDS = st.integers(0, 1 << 32)


def delays(most_ms: int, seed: int = 0) -> Iterator[int]:
    dice = random.Random(seed)
    return iter(lambda: dice.randint(0, most_ms), None)


def cluster(
    *managers: list[SimulatedSource], delay_ms: int = 10, seed: int = 0, lost_ms: dict[int, int] | None = None
) -> Cluster:
    return Cluster(
        [
            Manager(f"tm-{number}", sources, delays(delay_ms, seed + number), lost_ms=(lost_ms or {}).get(number))
            for number, sources in enumerate(managers)
        ]
    )


def source(per_ms: int, batch_ms: int = 10, **more: object) -> SimulatedSource:
    return SimulatedSource(per_ms, per_ms * batch_ms, **more)  # type: ignore[arg-type]


# Some end, and some are silent from a time on.
GONE_MS = st.none() | st.integers(0, 3_000)
SOURCES = st.builds(
    lambda per_ms, batch_ms, end_ms, idle_ms: source(
        per_ms, batch_ms, end_ms=end_ms, idle_ms=(0, 0) if idle_ms is None else (idle_ms, 9_000)
    ),
    st.integers(1, 20),
    st.integers(5, 60),
    GONE_MS,
    GONE_MS,
)
MANAGERS = st.lists(st.lists(SOURCES, min_size=1, max_size=2), min_size=2, max_size=4)


@given(MANAGERS, st.integers(0, 300), SEEDS, st.dictionaries(st.integers(0, 3), st.integers(0, 3_000), max_size=2))
def test_nobody_is_further_ahead_than_the_fastest_comes_while_words_travel(
    managers: list[list[SimulatedSource]], delay_ms: int, seed: int, lost_ms: dict[int, int]
) -> None:
    made = cluster(*managers, delay_ms=delay_ms, seed=seed, lost_ms=lost_ms)
    made.run(3_000)
    everyone = [item for manager in managers for item in manager]
    fastest, batch_us = max(item.per_ms for item in everyone), max(item.batch_us for item in everyone)
    assert max(made.ahead_us.values(), default=0) <= fastest * (AHEAD_MS + 2 * (delay_ms + TICK_MS)) + 2 * batch_us


@given(st.integers(2, 20), st.integers(5, 60), st.integers(5, 60), st.integers(0, 300), SEEDS)
def test_who_waits_is_ahead_by_what_the_slow_one_covers(
    times: int, batch_ms: int, slow_batch_ms: int, delay_ms: int, seed: int
) -> None:
    fast, slow = source(10 * times, batch_ms), source(10, slow_batch_ms)
    made = cluster([fast], [slow], delay_ms=delay_ms, seed=seed)
    # What was read before the first word is behind the slow one by then.
    settled_ms = (times + 1) * (AHEAD_MS + 2 * (delay_ms + TICK_MS) + 2 * batch_ms)
    made.run(settled_ms + 2_000, settled_ms)
    bound_us = 10 * (AHEAD_MS + 2 * (delay_ms + TICK_MS) + 2 * slow_batch_ms) + fast.batch_us
    assert made.ahead_us["tm-0"] <= bound_us


@given(st.integers(2, 4), st.integers(5, 60), st.integers(0, 40), SEEDS)
def test_equally_fast_sources_never_wait_for_each_other(count: int, batch_ms: int, delay_ms: int, seed: int) -> None:
    sources = [source(10, batch_ms) for _ in range(count)]
    cluster(*([item] for item in sources), delay_ms=delay_ms, seed=seed).run(4_000)
    assert min(item.latest_us for item in sources) >= 0.96 * 4_000 * 10


@given(st.lists(st.integers(5, 200), min_size=2, max_size=4), st.integers(0, 40), SEEDS)
def test_live_streams_wait_no_longer_than_in_one_process(batches_ms: list[int], delay_ms: int, seed: int) -> None:
    """There, too, a source waits for the last read of another, which began up to two batches ago."""
    apart = [source(10, batch_ms, live=True) for batch_ms in batches_ms]
    cluster(*([item] for item in apart), delay_ms=delay_ms, seed=seed).run(4_000)
    together = [source(10, batch_ms, live=True) for batch_ms in batches_ms]
    cluster(together).run(4_000)
    for item, other in zip(apart, together, strict=True):
        assert item.lag_ms <= other.lag_ms + REPORT_NS // MS + 2 * (delay_ms + TICK_MS)


@given(st.integers(2, 4), st.integers(5, 200), st.integers(0, 40), SEEDS)
def test_live_streams_that_move_alike_do_not_stutter(count: int, batch_ms: int, delay_ms: int, seed: int) -> None:
    sources = [source(10, batch_ms, live=True) for _ in range(count)]
    cluster(*([item] for item in sources), delay_ms=delay_ms, seed=seed).run(4_000)
    assert max(item.lag_ms for item in sources) <= TICK_MS


@given(st.integers(2, 30), st.integers(0, 300), SEEDS, st.sampled_from(["lost", "idle", "ended"]))
def test_who_is_lost_idle_or_at_the_end_holds_nobody(times: int, delay_ms: int, seed: int, way: str) -> None:
    gone_ms, until_ms = 1_000, 8_000
    slow = source(10, idle_ms=(gone_ms, until_ms) if way == "idle" else (0, 0))
    fast = [source(10 * times) for _ in range(2)]
    made = cluster(
        [slow], fast[:1], fast[1:], delay_ms=delay_ms, seed=seed, lost_ms={0: gone_ms} if way == "lost" else {}
    )
    if way == "ended":
        slow.end_ms = gone_ms
    made.run(until_ms)
    free_ms = until_ms - gone_ms - 2 * (delay_ms + AHEAD_MS)
    if delay_ms <= 40:
        assert min(item.latest_us for item in fast) >= 0.9 * free_ms * 10 * times
    else:
        # Words that take longer than a window hold those that wait for each other.
        assert min(item.latest_us for item in fast) >= 2 * gone_ms * 10


def test_who_comes_back_late_is_waited_for() -> None:
    slow, fast = source(10, idle_ms=(500, 2_000)), source(100)
    made = cluster([slow], [fast])
    made.run(2_100)
    before_us = fast.latest_us
    assert before_us > 100 * 1_000
    made = cluster([source(10, idle_ms=(500, 2_000))], [fast := source(100)])
    made.run(4_000)
    assert fast.latest_us <= before_us + 100 * AHEAD_MS


def progress(*items: tuple[int, int, int]) -> Progress:
    return Progress(tuple(RegionProgress(*item) for item in items))


def test_the_head_tells_each_the_least_of_the_others_and_only_news() -> None:
    relay = ProgressRelay()
    assert relay.hear("a", progress((0, 1, 10))) == {}
    assert relay.hear("b", progress((0, 1, 30))) == {"a": progress((0, 1, 30)), "b": progress((0, 1, 10))}
    assert relay.hear("c", progress((0, 1, 20))) == {"a": progress((0, 1, 20)), "c": progress((0, 1, 10))}
    assert relay.hear("b", progress((0, 1, 40))) == {}
    assert relay.hear("a", progress((0, 1, 20))) == {"b": progress((0, 1, 20)), "c": progress((0, 1, 20))}
    assert relay.lose("a") == {"c": progress((0, 1, 40))}
    assert relay.hear("c", progress((0, 1, END_OF_TIME_US))) == {"b": progress((0, 1, END_OF_TIME_US))}
    assert relay.lose("c") == relay.lose("b") == relay.lose("b") == {}


def test_regions_and_attempts_are_apart() -> None:
    relay = ProgressRelay()
    relay.hear("a", progress((0, 1, 10), (4, 1, 7)))
    assert relay.hear("b", progress((0, 1, 5), (4, 1, 8))) == {
        "a": progress((0, 1, 5), (4, 1, 8)),
        "b": progress((0, 1, 10), (4, 1, 7)),
    }
    # The first word of a new attempt: what was said in the one before holds nobody, nor does what comes late.
    assert relay.hear("b", progress((4, 2, 1))) == {}
    assert relay.hear("a", progress((4, 1, 9))) == {}
    assert relay.hear("a", progress((4, 2, 3))) == {"a": progress((4, 2, 1)), "b": progress((4, 2, 3))}


def aligned(*sources: SimulatedSource) -> SourceAlignment:
    alignment = SourceAlignment()
    for item in sources:
        alignment.add(item)  # type: ignore[arg-type]
    return alignment


def test_a_task_manager_reports_what_has_changed_in_time() -> None:
    here, there = source(10), source(10)
    regions = {TaskId(0): aligned(here), TaskId(3): aligned(there), TaskId(5): aligned()}
    reports = ProgressReports()
    assert reports.due_ns is None
    reports.begin(2, regions, 1_000)
    assert reports.due_ns == 1_000 + FIRST_REPORT_NS
    here.read(0)
    regions[TaskId(0)].settle(here)  # type: ignore[arg-type]
    assert reports.report(1_000) is None
    now_ns = reports.due_ns
    assert reports.report(now_ns) == progress((0, 2, 0), (3, 2, there.began_us))
    gaps_ms = []
    for _ in range(12):
        assert reports.due_ns is not None
        gaps_ms.append((reports.due_ns - now_ns) // MS)
        now_ns = reports.due_ns
        assert reports.report(now_ns) is None
    assert gaps_ms == [10, 10, 15, 22, 33, 50, 75, 100, 100, 100, 100, 100]
    here.ended = True
    regions[TaskId(0)].settle(here)  # type: ignore[arg-type]
    assert reports.report(now_ns) is None
    assert reports.report(now_ns + REPORT_NS) == progress((0, 2, END_OF_TIME_US))
    reports.end([TaskId(0), TaskId(5)])
    assert reports.due_ns is not None
    reports.end([TaskId(3)])
    assert reports.due_ns is None
    assert reports.report(1 << 60) is None


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_task_manager_hears_of_its_own_attempt_only(attempt: int) -> None:
    here = source(10)
    alignment = aligned(here)
    reports = ProgressReports()
    reports.begin(2, {TaskId(0): alignment}, 0)
    here.read(0)
    here.free_ms = 0
    here.read(0)
    alignment.settle(here)  # type: ignore[arg-type]
    assert list(reports.hear(progress((0, attempt, 5), (9, attempt, 5)), 1)) == ([here] if attempt == 2 else [])
    assert alignment.may_read(here) == (attempt == 1)  # type: ignore[arg-type]
