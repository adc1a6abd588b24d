"""What the head says of its task managers, from their signs of life and what they tell of their steps."""

import pytest

from penstock.engine.executors.managers.liveness import Limits
from penstock.engine.executors.managers.messages import OutOfStep, StuckInStep
from penstock.engine.executors.managers.watch import Dead, Finding, ManagerSigns, ManagerWatch, Stuck, WellAgain

SECOND_NS = 1_000_000_000

LINE = "shop.py:12"


def watched(*names: str) -> ManagerWatch:
    """Return a watch over task managers that were just heard."""
    watch = ManagerWatch()
    assert watch.look(0, {name: ManagerSigns(0, 0) for name in names}) == []
    return watch


def over_time(watch: ManagerWatch, seconds: range, **signs: ManagerSigns) -> dict[int, list[Finding]]:
    """Look once a second, with signs that stay as they are; return what is said, by second."""
    said = {second: watch.look(second * SECOND_NS, signs) for second in seconds}
    return {second: findings for second, findings in said.items() if findings}


def heard(seconds: float, cpu_s: float = 0.0) -> ManagerSigns:
    return ManagerSigns(int(seconds * SECOND_NS), int(cpu_s * SECOND_NS))


def test_who_is_silent_without_a_core_is_said_to_be_lost_once_and_by_name() -> None:
    watch = watched("tm-0", "tm-1")
    assert over_time(watch, range(1, 60), **{"tm-0": heard(60), "tm-1": heard(2)}) == {
        12: [Dead("tm-1", "task manager 'tm-1' is lost: it has said nothing for 10 s, and uses no core")]
    }


def test_where_core_time_cannot_be_seen_nothing_is_said_of_it() -> None:
    (second, (dead,)), *more = over_time(watched("tm-0"), range(1, 60), **{"tm-0": ManagerSigns(0, None)}).items()
    assert (second, more) == (10, [])
    assert dead.text == "task manager 'tm-0' is lost: it has said nothing for 10 s"


def test_a_long_step_is_said_once_with_its_place_and_so_is_its_end() -> None:
    watch = watched("tm-0", "tm-1")
    watch.hear("tm-1", StuckInStep("map[1]", 5.0, LINE), 6 * SECOND_NS)
    signs = {name: heard(60) for name in ("tm-0", "tm-1")}
    assert over_time(watch, range(6, 30), **signs) == {
        11: [Stuck("tm-1", f"task manager 'tm-1' has been in one step for 10 s: map[1], {LINE}")]
    }
    watch.hear("tm-1", OutOfStep("map[1]", 29.5), 30 * SECOND_NS)
    assert over_time(watch, range(30, 60), **signs) == {30: [WellAgain("tm-1", "task manager 'tm-1' goes on")]}


def test_a_step_that_ends_before_it_is_long_is_not_spoken_of() -> None:
    watch = watched("tm-0")
    watch.hear("tm-0", StuckInStep("map[1]", 5.0, LINE), 6 * SECOND_NS)
    watch.hear("tm-0", OutOfStep("map[1]", 8.0), 9 * SECOND_NS)
    assert over_time(watch, range(9, 40), **{"tm-0": heard(60)}) == {}


def test_a_step_without_a_line_of_the_users() -> None:
    watch = watched("tm-0")
    watch.hear("tm-0", StuckInStep("sink[0]", 12.0, ""), 12 * SECOND_NS)
    (stuck,) = watch.look(12 * SECOND_NS, {"tm-0": heard(12)})
    assert stuck.text == "task manager 'tm-0' has been in one step for 12 s: sink[0]"


def test_who_is_silent_and_uses_a_core_is_stuck_until_it_is_heard_or_uses_none() -> None:
    watch = watched("tm-0")
    said = {second: watch.look(second * SECOND_NS, {"tm-0": heard(1, second)}) for second in range(2, 20)}
    assert {second: findings for second, findings in said.items() if findings} == {
        11: [
            Stuck(
                "tm-0",
                "task manager 'tm-0' has said nothing for 10 s but uses a core: "
                "it still imports, or user code holds the interpreter lock",
            )
        ]
    }
    assert [type(found) for found in watch.look(20 * SECOND_NS, {"tm-0": heard(20, 20)})] == [WellAgain]
    said = over_time(watch, range(21, 60), **{"tm-0": heard(20, 21)})
    # At 21 s it was last seen to use a core.
    assert [(second, type(found)) for second, (found,) in said.items()] == [(30, Stuck), (31, Dead)]


def test_what_becomes_known_of_a_silent_one_is_said() -> None:
    watch = watched("tm-0")
    for second in range(2, 12):
        said = watch.look(second * SECOND_NS, {"tm-0": heard(1, second)})
    assert len(said) == 1 and "holds the interpreter lock" in said[0].text
    # The lock was let go of for a moment.
    watch.hear("tm-0", StuckInStep("map[0]", 11.0, LINE), 12 * SECOND_NS)
    assert watch.look(12 * SECOND_NS, {"tm-0": heard(12, 12)}) == [
        Stuck("tm-0", f"task manager 'tm-0' has been in one step for 11 s: map[0], {LINE}")
    ]
    watch.hear("tm-0", OutOfStep("map[0]", 11.5), 13 * SECOND_NS)
    watch.hear("tm-0", StuckInStep("map[1]", 20.0, LINE), 13 * SECOND_NS)
    (other,) = watch.look(13 * SECOND_NS, {"tm-0": heard(13, 13)})
    assert isinstance(other, Stuck) and "map[1]" in other.text


def test_who_is_not_watched_is_forgotten_and_begins_anew() -> None:
    watch = watched("tm-0")
    watch.hear("tm-1", StuckInStep("map[1]", 99.0, LINE), 1)
    said = over_time(watch, range(1, 21), **{"tm-0": heard(0)})
    assert [type(found) for findings in said.values() for found in findings] == [Dead]
    assert watch.look(21 * SECOND_NS, {}) == []
    assert watch.look(22 * SECOND_NS, {"tm-0": heard(22), "tm-1": heard(22)}) == []


def test_limits_are_handed_in() -> None:
    watch = ManagerWatch(Limits(silence_ns=2 * SECOND_NS, long_step_ns=SECOND_NS))
    watch.look(0, {"tm-0": heard(0), "tm-1": heard(0)})
    watch.hear("tm-0", StuckInStep("map[1]", 0.5, LINE), SECOND_NS)
    said = over_time(watch, range(1, 9), **{"tm-0": heard(9), "tm-1": heard(0)})
    assert {second: [type(found) for found in findings] for second, findings in said.items()} == {2: [Stuck, Dead]}


@pytest.mark.parametrize("asleep_s", [11, 3_600])
def test_a_head_that_stood_still_holds_no_silence_of_that_time_against_anyone(asleep_s: int) -> None:
    watch = watched("tm-0", "tm-1", "tm-2")
    working = ManagerSigns(0, 0)
    assert over_time(watch, range(1, 5), **{"tm-0": working, "tm-1": working, "tm-2": heard(4)}) == {}
    # It wakes up and has not heard anyone yet; then it hears two of them.
    wakes = 4 + asleep_s
    assert watch.look(wakes * SECOND_NS, {"tm-0": working, "tm-1": working, "tm-2": heard(4)}) == []
    signs = {"tm-0": heard(wakes + 60), "tm-1": working, "tm-2": heard(wakes - 2)}
    said = over_time(watch, range(wakes + 1, wakes + 30), **signs)
    # The four seconds before, two and a half of its sleep, and those that follow count; of what was heard in it, none.
    assert {second - wakes: [(type(found), found.name) for found in findings] for second, findings in said.items()} == {
        4: [(Dead, "tm-1")],
        10: [(Dead, "tm-2")],
    }


def test_a_head_that_looks_seldom_still_finds_who_is_lost() -> None:
    watch = watched("tm-0")
    said = over_time(watch, range(30, 300, 30), **{"tm-0": heard(0)})
    assert {second: [type(found) for found in findings] for second, findings in said.items()} == {120: [Dead]}
