"""Deployments over the head's task managers: who is waited for, and how."""

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.dataflow.attempt_start import FIRST
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import TAKE_DOWN_NS, Deployments
from penstock.engine.executors.managers.pool_news import Lost, News, Said
from penstock.engine.executors.managers.task_manager import METRICS_NS
from penstock.engine.jobs.attempt import AttemptContext
from penstock.engine.transport.waiting import Waiter
from penstock.model.errors import WorkerLostError
from tests.contracts.executors.metered import until
from tests.engine.executors.managers.scripted_managers import Scene, obey


def test_a_lost_task_manager_is_not_waited_for_when_instances_are_taken_down(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with scene.head:
        attempt = scene.attempt()
        scene.launcher.kill("tm-1")
        struck = attempt.proceed(lambda: False, None, None)
        assert struck is not None and isinstance(struck.error, WorkerLostError)
        survivor = scene.launcher.managers["tm-0"]
        began_ns = scene.clock.monotonic_ns()
        attempt.take_down(None, struck.error)
        assert scene.clock.monotonic_ns() - began_ns < TAKE_DOWN_NS
        assert ms.TakeDown(None) in survivor.heard


def test_who_has_answered_while_the_head_stood_still_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = Waiter.wait
    waits = 0

    def oversleep(waiter: Waiter, timeout_s: float | None) -> Collection[int]:
        nonlocal waits
        waits += 1
        if waits == 1:
            clock.advance_ns(6 * TAKE_DOWN_NS)
        elif waits == 2:
            held.say(ms.TakenDown(None, ()))
        return wait(waiter, timeout_s)

    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        return [] if name == "tm-1" and isinstance(order, ms.TakeDown) else obey(name, order)

    clock = ManualClock()
    scene = Scene(tmp_path, answer=answer, clock=clock)
    with scene.head as head:
        attempt = scene.attempt()
        held = scene.launcher.managers["tm-1"]
        monkeypatch.setattr(Waiter, "wait", oversleep)
        attempt.take_down(None, RuntimeError())
        assert waits >= 2 and head.pool.live() == ["tm-0", "tm-1"]


def test_whoever_deploys_sleeps_until_something_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []
    wait = Waiter.wait

    def record(waiter: Waiter, timeout_s: float | None) -> Collection[int]:
        waits.append(timeout_s)
        if len(waits) == 3:
            held.say(ms.Deployed(1))
        return wait(waiter, None if timeout_s is None else min(timeout_s, 0.01))

    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        return [] if name == "tm-1" and isinstance(order, ms.Deploy) else obey(name, order)

    clock = ManualClock()
    scene = Scene(tmp_path, answer=answer, clock=clock)
    with scene.head:
        held = scene.launcher.managers["tm-1"]
        scene.head.await_managers(lambda news: None)
        clock.advance_ns(2 * METRICS_NS)
        monkeypatch.setattr(Waiter, "wait", record)
        attempt = scene.attempt()
        assert waits and all(timeout_s for timeout_s in waits)
        attempt.take_down(None, RuntimeError())


def test_who_has_built_its_part_and_is_lost_before_the_others_have_is_missed(tmp_path: Path) -> None:
    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        if isinstance(order, ms.Deploy) and name == "tm-1":
            built = scene.launcher.managers["tm-0"]
            built.say(ms.Deployed(order.deployment))
            scene.launcher.kill("tm-0")
            # Whose link has ended may be noticed behind what another one says.
            until(lambda: not scene.head.pool.has("tm-0"))
            return [ms.Deployed(order.deployment)]
        return [] if isinstance(order, ms.Deploy) else obey(name, order)

    scene = Scene(tmp_path, answer=answer)
    with scene.head, pytest.raises(WorkerLostError, match="'tm-0' is lost"):
        scene.attempt()


@pytest.mark.parametrize("committed", [True, False])
def test_who_was_lost_before_all_close_is_not_waited_for(tmp_path: Path, committed: bool) -> None:
    def take(news: News) -> None:
        match news:
            case Lost(manager):
                deployments.lose(manager, WorkerLostError(f"{manager} is lost"))
            case Said(manager, ms.Deployed() | ms.TakenDown() | ms.Finished() as said):
                deployments.hear(manager, said)

    scene = Scene(tmp_path)
    with scene.head as head:
        graph = scene.plan.graph
        deployments = Deployments(graph, head, AttemptContext(scene.clock), take)
        deployments.deploy(frozenset(task.id for task in graph.tasks), head.await_managers(take), FIRST, None)
        scene.launcher.kill("tm-1")
        for news in scene.news_until(lambda: not head.pool.has("tm-1")):
            take(news)
        if committed:
            assert deployments.finish(drained=True, committed=True) == ["tm-1"]
        else:
            with pytest.raises(WorkerLostError, match="'tm-1' is lost, and what was there is not committed"):
                deployments.finish(drained=True, committed=False)


@pytest.mark.parametrize("committed", [True, False])
def test_who_is_lost_while_all_close_takes_only_along_what_is_not_committed(tmp_path: Path, committed: bool) -> None:
    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        if isinstance(order, ms.Finish) and name == "tm-1":
            scene.launcher.kill("tm-1")
            return []
        return obey(name, order)

    def take(news: News) -> None:
        match news:
            case Lost(manager):
                deployments.lose(manager, WorkerLostError(f"{manager} is lost"))
            case Said(manager, ms.Deployed() | ms.TakenDown() | ms.Finished() as said):
                deployments.hear(manager, said)

    scene = Scene(tmp_path, answer=answer)
    with scene.head:
        graph = scene.plan.graph
        deployments = Deployments(graph, scene.head, AttemptContext(scene.clock), take)
        managers = scene.head.await_managers(take)
        deployments.deploy(frozenset(task.id for task in graph.tasks), managers, FIRST, None)
        if committed:
            assert deployments.finish(drained=True, committed=True) == ["tm-1"]
        else:
            with pytest.raises(WorkerLostError, match="tm-1 is lost"):
                deployments.finish(drained=True, committed=False)
