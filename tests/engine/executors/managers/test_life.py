"""The life of a task manager, and what is believed of one that says nothing."""

import pytest

from penstock.engine.executors.managers.life import TRANSITIONS, ManagerEvent, ManagerState, after, may_follow
from penstock.engine.executors.managers.liveness import LONG_STEP_NS, SILENCE_NS, LifeSigns, Liveness, Verdict
from penstock.model.errors import BugError

SECOND_NS = 1_000_000_000


def test_every_state_is_reached_and_every_event_comes() -> None:
    reached = {ManagerState.STARTED, ManagerState.OUTLIVING}
    while True:
        further = {after for state in reached for after in TRANSITIONS[state].values()} - reached
        if not further:
            break
        reached |= further
    assert reached == set(ManagerState)
    assert {event for following in TRANSITIONS.values() for event in following} == set(ManagerEvent)


def test_nobody_joins_twice_and_who_has_joined_stays_so() -> None:
    for state, following in TRANSITIONS.items():
        assert ManagerState.STARTED not in following.values()
        assert may_follow(state, ManagerEvent.JOINED) == (state is ManagerState.STARTED)


def test_what_cannot_follow_is_told_from_what_can() -> None:
    assert not may_follow(ManagerState.STARTED, ManagerEvent.DEPLOY_ORDERED)
    assert after(ManagerState.RUNNING, ManagerEvent.TAKEN_DOWN) is ManagerState.IDLE
    with pytest.raises(BugError, match="cannot meet the event"):
        after(ManagerState.RUNNING, ManagerEvent.JOINED)


def test_one_that_is_heard_lives() -> None:
    liveness = Liveness(0)
    for now_ns in range(0, 60 * SECOND_NS, SECOND_NS):
        assert liveness.look(LifeSigns(now_ns, heard_ns=now_ns, cpu_ns=5)) is Verdict.WELL


def test_one_that_is_silent_and_uses_no_core_is_dead_after_ten_seconds() -> None:
    liveness = Liveness(0)
    assert liveness.look(LifeSigns(SECOND_NS, heard_ns=SECOND_NS, cpu_ns=7)) is Verdict.WELL
    assert liveness.look(LifeSigns(SECOND_NS + SILENCE_NS - 1, heard_ns=SECOND_NS, cpu_ns=7)) is Verdict.WELL
    assert liveness.look(LifeSigns(SECOND_NS + SILENCE_NS, heard_ns=SECOND_NS, cpu_ns=7)) is Verdict.DEAD


def test_one_whose_core_time_cannot_be_seen_is_judged_by_its_silence() -> None:
    assert Liveness(0).look(LifeSigns(SILENCE_NS, heard_ns=0, cpu_ns=None)) is Verdict.DEAD


def test_one_that_is_silent_for_a_minute_but_works_is_stuck_not_dead() -> None:
    liveness = Liveness(0)
    verdicts = [
        liveness.look(LifeSigns(now_ns, heard_ns=0, cpu_ns=now_ns // 2))
        for now_ns in range(SECOND_NS, 60 * SECOND_NS, SECOND_NS)
    ]
    assert verdicts[:9] == [Verdict.WELL] * 9
    assert verdicts[9:] == [Verdict.STUCK] * 50


def test_a_step_that_takes_long_is_spoken_of_while_heartbeats_come() -> None:
    liveness = Liveness(0)
    heard = [LifeSigns(now_ns, now_ns, cpu_ns=1, step_ns=now_ns) for now_ns in (LONG_STEP_NS - 1, LONG_STEP_NS)]
    assert [liveness.look(signs) for signs in heard] == [Verdict.WELL, Verdict.STUCK]
