"""The coordinator of moves: rule by rule, and any order of what happens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import Reroute
from penstock.engine.moves.move_coordinator import MoveCoordinator
from penstock.engine.moves.move_events import (
    HoldBarriers,
    InstanceLeft,
    LetBarriersGo,
    MarkersSent,
    MoveDone,
    MoveEvent,
    MoveFailed,
    MoveWanted,
    SendMarkers,
    StateGiven,
    StateInstalled,
    TasksFailed,
)
from penstock.model.errors import BugError
from penstock.model.ids import TaskId

ONE, TWO = TaskId(1), TaskId(2)
GROUPS = ((3, 0, 1), (4, 0, 1), (9, 2, 1))
WANTED = MoveWanted(ONE, GROUPS, ((ONE, "keyed"), (TWO, "joined")))
MARKER = Reroute(1, ONE, GROUPS)
PAIRS = [(task, giver, 1) for task in ("keyed", "joined") for giver in (0, 2)]


def begun(wanted: MoveWanted = WANTED) -> MoveCoordinator:
    coordinator = MoveCoordinator()
    assert coordinator.on(wanted) == [HoldBarriers(), SendMarkers(MARKER, frozenset({ONE, TWO}))]
    return coordinator


def test_it_is_done_when_all_that_was_given_is_installed() -> None:
    coordinator = begun()
    events: list[MoveEvent] = [MarkersSent(1, 2)]
    for pair in PAIRS:
        events += [StateGiven(1, *pair), StateInstalled(1, *pair)]
    for event in events[:-1]:
        assert coordinator.on(event) == []
    assert coordinator.on(events[-1]) == [LetBarriersGo(), MoveDone(MARKER)]
    assert coordinator.moving is None


def test_the_next_move_has_another_number() -> None:
    coordinator = begun()
    coordinator.on(MarkersSent(1, 0))
    assert coordinator.on(WANTED)[1] == SendMarkers(Reroute(2, ONE, GROUPS), frozenset({ONE, TWO}))


def test_without_producers_nothing_moves() -> None:
    assert begun().on(MarkersSent(1, 0)) == [LetBarriersGo(), MoveDone(MARKER)]


def test_who_has_ended_gives_nothing() -> None:
    coordinator = begun(MoveWanted(ONE, GROUPS, WANTED.tasks, frozenset({"keyed[0]", "keyed[2]", "joined[2]"})))
    coordinator.on(MarkersSent(1, 1))
    assert coordinator.on(InstanceLeft("keyed[1]")) == []
    assert coordinator.on(InstanceLeft("joined[0]")) == [LetBarriersGo(), MoveDone(MARKER)]


def test_who_ends_after_it_gave_is_waited_for() -> None:
    coordinator = MoveCoordinator()
    coordinator.on(MoveWanted(ONE, GROUPS[:1], ((ONE, "keyed"),)))
    coordinator.on(MarkersSent(1, 1))
    coordinator.on(StateGiven(1, "keyed", 0, 1))
    assert coordinator.on(InstanceLeft("keyed[0]")) == []
    assert coordinator.on(StateInstalled(1, "keyed", 0, 1))[0] == LetBarriersGo()


def test_a_failure_of_its_tasks_ends_a_move_and_what_comes_of_it_later_is_dropped() -> None:
    coordinator = begun()
    assert coordinator.on(TasksFailed(frozenset({TaskId(7)}), "elsewhere")) == []
    failed = coordinator.on(TasksFailed(frozenset({TWO}), "lost"))
    assert failed == [LetBarriersGo(), MoveFailed(MARKER, "lost")]
    for event in (StateGiven(1, *PAIRS[0]), StateInstalled(1, *PAIRS[0]), MarkersSent(1, 2)):
        assert coordinator.on(event) == []


@pytest.mark.parametrize(
    "event", [WANTED, StateInstalled(1, "keyed", 1, 0), StateGiven(1, "keyed", 1, 0), StateGiven(1, "other", 0, 1)]
)
def test_what_is_impossible_is_a_bug_that_tells_what_came_before(event: MoveEvent) -> None:
    coordinator = begun()
    with pytest.raises(BugError):
        coordinator.on(event)


@given(st.data())
def test_in_any_order_barriers_are_held_exactly_as_long_as_state_may_be_on_its_way(data: st.DataObject) -> None:
    coordinator = MoveCoordinator()
    held, moves = False, 0
    waiting: list[MoveEvent] = []
    for _ in range(30):
        if coordinator.moving is None:
            waiting = []
            event: MoveEvent = WANTED
            moves += 1
        elif waiting:
            event = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        else:
            event = TasksFailed(frozenset({ONE}), "lost")
        commands = coordinator.on(event)
        if isinstance(event, MoveWanted):
            waiting = [MarkersSent(moves, 2), *(StateGiven(moves, *pair) for pair in PAIRS)]
            if data.draw(st.booleans()):
                waiting.append(TasksFailed(frozenset({TWO}), "lost"))
        if isinstance(event, StateGiven):
            waiting.append(StateInstalled(event.move, event.task, event.giver, event.taker))
        held |= HoldBarriers() in commands
        held &= LetBarriersGo() not in commands
        assert held == (coordinator.moving is not None)


def test_state_may_be_installed_before_it_is_heard_that_it_was_given() -> None:
    coordinator = MoveCoordinator()
    coordinator.on(WANTED)
    coordinator.on(MarkersSent(1, 2))
    for pair in PAIRS:
        assert coordinator.on(StateInstalled(1, *pair)) == []
    done: list[object] = []
    for pair in PAIRS:
        assert coordinator.moving is not None and done == []
        done += coordinator.on(StateGiven(1, *pair))
    assert coordinator.moving is None and LetBarriersGo() in done


def test_what_is_installed_twice_is_no_part_of_the_move() -> None:
    coordinator = MoveCoordinator()
    coordinator.on(WANTED)
    coordinator.on(StateInstalled(1, *PAIRS[0]))
    with pytest.raises(BugError):
        coordinator.on(StateInstalled(1, *PAIRS[0]))
