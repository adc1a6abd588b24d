"""The pool of task managers: what becomes of those that are lost, and of those that cannot come in their place."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.executors.managers import head as managers_head
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers import pool
from penstock.engine.executors.managers.failures import failure_of
from penstock.engine.executors.managers.pool import LOOK_NS, MOST_STILLBORN
from penstock.engine.executors.managers.pool_news import Lost, News, Said
from penstock.model.errors import WorkerLostError
from tests.engine.executors.managers.scripted_managers import Scene, obey


def ignore(news: News) -> None:
    pass


def lost_of(scene: Scene, name: str) -> list[News]:
    """Lose a task manager that has joined; return the news of it."""
    scene.launcher.kill(name)
    return list(scene.news_until(lambda: not scene.head.pool.has(name)))


def test_a_job_goes_on_with_the_others_where_there_is_no_room_for_a_replacement(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with scene.head as head:
        head.await_managers(ignore)
        scene.launcher.refusals = 1
        assert lost_of(scene, "tm-1") == [Lost("tm-1", "it was killed")]
        assert head.pool.live() == ["tm-0"] and head.pool.awaited() == 0
        (warning,) = scene.warned
        assert "no memory" in warning and "1 of 2" in warning
        head.await_managers(ignore)
        assert scene.launcher.started[-1] != "tm-1" and len(scene.launcher.started) == 3


def test_the_missing_are_started_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "START_AGAIN_NS", 0)
    scene = Scene(tmp_path)
    with scene.head as head:
        head.await_managers(ignore)
        scene.launcher.refusals = 1
        lost_of(scene, "tm-1")
        list(scene.news_until(lambda: len(head.pool.live()) == 2))
        assert len(scene.launcher.started) == 3


def test_those_that_had_no_room_are_started_when_there_is_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "LOOK_NS", 0)
    scene = Scene(tmp_path)
    with scene.head as head:
        head.await_managers(ignore)
        scene.launcher.refusals, scene.launcher.room = 2, True
        lost_of(scene, "tm-1")
        list(scene.news_until(lambda: len(head.pool.live()) == 2))
        assert len(scene.launcher.started) == 3 and len(scene.warned) == 2


def test_room_does_not_start_those_again_that_end_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        scene.launcher.end(name)
        return []

    monkeypatch.setattr(pool, "LOOK_NS", 0)
    scene = Scene(tmp_path)
    with scene.head as head:
        head.await_managers(ignore)
        scene.launcher.answer, scene.launcher.room = die, True
        lost_of(scene, "tm-1")
        list(scene.news_until(lambda: bool(scene.warned)))
        list(head.pool.turn())
        assert len(scene.launcher.started) == 2 + MOST_STILLBORN


def test_an_attempt_after_stillborn_task_managers_starts_others(tmp_path: Path) -> None:
    def die(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        scene.launcher.end(name)
        return []

    scene = Scene(tmp_path, count=1)
    with scene.head as head:
        head.await_managers(ignore)
        scene.launcher.answer = die
        lost_of(scene, "tm-0")
        with pytest.raises(WorkerLostError, match="it was killed"):
            head.await_managers(ignore)
        assert len(scene.launcher.started) == 1 + MOST_STILLBORN
        scene.launcher.answer = obey
        assert head.await_managers(ignore) == scene.launcher.started[-1:]


def test_a_replacement_that_can_make_nothing_of_the_job_does_not_end_it(tmp_path: Path) -> None:
    def refuse(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        return [ms.SetupFailed(failure_of(ModuleNotFoundError("No module named 'shop'")))]

    scene = Scene(tmp_path)
    with scene.head as head:
        head.await_managers(ignore)
        scene.launcher.answer = refuse
        lost_of(scene, "tm-1")
        assert {type(item) for item in scene.news_until(lambda: bool(scene.warned))} <= {Lost}
        assert len(scene.launcher.started) == 2 + MOST_STILLBORN
        assert "No module named 'shop'" in scene.warned[0] and "1 of 2" in scene.warned[0]
        assert head.pool.live() == ["tm-0"] and head.pool.awaited() == 0


def test_the_first_that_can_make_nothing_of_the_job_end_it(tmp_path: Path) -> None:
    def refuse(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        return [ms.SetupFailed(failure_of(ModuleNotFoundError("No module named 'shop'")))]

    with Scene(tmp_path, answer=refuse).head as head, pytest.raises(ModuleNotFoundError, match="shop"):
        head.await_managers(ignore)


def test_one_that_never_joins_does_not_keep_the_others_from_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        return [] if name == "tm-1" else obey(name, order)

    scene = Scene(tmp_path, answer=answer)
    with scene.head as head:
        list(scene.news_until(lambda: bool(head.pool.live())))
        scene.launcher.kill("tm-0")
        list(scene.news_until(lambda: not head.pool.has("tm-0")))
        monkeypatch.setattr(managers_head, "JOIN_S", 1.0)
        assert head.await_managers(ignore) == ["tm-2"]


def test_a_job_that_ran_goes_on_with_the_first_that_comes_in_the_place_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        return [] if name == "tm-3" else obey(name, order)

    monkeypatch.setattr(managers_head, "REJOIN_S", 0.1)
    scene = Scene(tmp_path, answer=answer)
    with scene.head as head:
        head.await_managers(ignore)
        head.next_deployment()
        scene.launcher.kill("tm-0")
        scene.launcher.kill("tm-1")
        list(scene.news_until(lambda: not head.pool.has("tm-0") and not head.pool.has("tm-1")))
        assert head.await_managers(ignore) == ["tm-2"]
        assert head.pool.awaited() == 1


def test_who_waits_without_a_turn_hears_of_a_process_that_ended(tmp_path: Path) -> None:
    clock = ManualClock()
    scene = Scene(tmp_path, clock=clock)
    with scene.head as head:
        head.await_managers(ignore)
        list(head.pool.turn())
        assert not head.pool.has_bad_news()
        scene.launcher.end("tm-1")
        clock.advance_ns(LOOK_NS)
        assert head.pool.has_bad_news()
        assert Lost("tm-1", "it was killed") in list(head.pool.turn())


def test_who_has_not_joined_is_not_waited_for_at_the_end(tmp_path: Path) -> None:
    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        return [] if name == "tm-1" else obey(name, order)

    scene = Scene(tmp_path, answer=answer)
    with scene.head as head:
        list(scene.news_until(lambda: bool(head.pool.live())))
    assert scene.launcher.left_to_end == ["tm-0"]


def test_a_head_that_stood_still_loses_nobody(tmp_path: Path) -> None:
    clock = ManualClock()
    scene = Scene(tmp_path, clock=clock)
    with scene.head as head:
        head.await_managers(ignore)
        clock.advance_ns(LOOK_NS)
        list(head.pool.turn())
        # The clock has run on, and what the others have said meanwhile was not read yet.
        clock.advance_ns(60 * LOOK_NS)
        assert not [news for news in head.pool.turn() if isinstance(news, Lost)]
        assert head.pool.live() == ["tm-0", "tm-1"]


@pytest.mark.parametrize("stopping", [False, True])
def test_who_is_told_to_end_is_let_go_unless_the_job_is_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopping: bool
) -> None:
    monkeypatch.setattr(pool, "LEAVE_NS", 0)
    clock = ManualClock()
    scene = Scene(tmp_path, clock=clock)
    with scene.head as head:
        attempt = scene.attempt()
        if stopping:
            orders = scene.launcher.managers["tm-0"].heard
            attempt.stop()
            attempt.proceed(lambda: any(isinstance(order, ms.EndSources) for order in orders), None, None)
        scene.launcher.managers["tm-1"].say(ms.LeaveAsked())
        news = scene.news_until(lambda: False)
        while not isinstance(said := next(news), Said) or not isinstance(said.message, ms.LeaveAsked):
            pass
        clock.advance_ns(LOOK_NS)
        lost = [news for news in head.pool.turn() if isinstance(news, Lost)]
        assert lost == ([] if stopping else [Lost("tm-1", "it was told to end (SIGTERM)")])
        attempt.take_down(None, RuntimeError())


def test_one_that_is_about_to_join_does_not_stay_beyond_the_number_that_is_wanted(tmp_path: Path) -> None:
    """It comes in the place of one that was lost, and was not there yet as it was said which ones leave."""
    scene = Scene(tmp_path, count=3)
    with scene.head as head:
        head.await_managers(ignore)
        list(scene.news_until(lambda: len(head.pool.live()) == 3))
        scene.launcher.answer = lambda name, order: []
        lost_of(scene, "tm-0")
        assert scene.launcher.started[-1] == "tm-3" and head.pool.has("tm-3")
        head.pool.resize(1, ("tm-2",))
        assert head.pool.live() == ["tm-1"] and [*head.pool.leaving()] == ["tm-2"]
        assert not head.pool.has("tm-3") and "tm-3" not in scene.launcher.managers
        head.pool.release("tm-2")
        news = list(scene.news_until(lambda: not head.pool.leaving()))
        assert head.pool.awaited() == 0 and len(scene.launcher.started) == 4
        scene.launcher.kill("tm-2")
        news += list(scene.news_until(lambda: not head.pool.has("tm-2")))
        assert [item.in_order for item in news if isinstance(item, Lost)] == [True]


def test_one_that_has_joined_since_it_was_said_who_leaves_leaves_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path, count=3)
    with scene.head as head:
        head.await_managers(ignore)
        list(scene.news_until(lambda: len(head.pool.live()) == 3))
        lost_of(scene, "tm-0")
        list(scene.news_until(lambda: len(head.pool.live()) == 3))
        head.pool.resize(1, ("tm-2",))
        assert head.pool.live() == ["tm-1"] and {*head.pool.leaving()} == {"tm-2", "tm-3"}
