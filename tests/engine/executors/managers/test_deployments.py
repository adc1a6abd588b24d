"""The deployments of a job: who is told what, and whose answer is awaited."""

from collections.abc import Iterator
from typing import Any, cast

from penstock.engine.core.clock import SystemClock
from penstock.engine.dataflow.worker import Outcome
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployment, Deployments
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.places import CALLER
from penstock.engine.executors.managers.pool import News, Said
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId


class AnsweringHead:
    """A head whose task managers let go as soon as they are told to, but those that are lost."""

    def __init__(self, *lost: str) -> None:
        self.told: list[str] = []
        self._lost = lost
        self._news: list[News] = []

    def has(self, name: str) -> bool:
        return name not in self._lost

    def send(self, name: str, message: ms.ToManager) -> None:
        assert isinstance(message, ms.TakeDown)
        self.told.append(name)
        if self.has(name):
            self._news.append(Said(name, ms.TakenDown(message.tasks, (f"note of {name}",))))

    def news(self) -> Iterator[News]:
        yield from self._news
        self._news = []

    def wait(self, outcome: Outcome, until_ns: int | None) -> None:
        raise AssertionError("all that can answer have answered")


def test_who_is_lost_is_not_waited_for() -> None:
    head = AnsweringHead("tm-0")
    tasks = frozenset([TaskId(1)])

    def take(news: News) -> None:
        assert isinstance(news, Said)
        deployments.hear(news.manager, cast(ms.TakenDown, news.message))

    graph: Any = ExecutionGraph
    deployments = Deployments(graph, cast(Head, head), SystemClock(), take)
    down = Deployment(1, tasks, {"a-0": "tm-0", "a-1": "tm-1", "a-2": CALLER})
    assert deployments.release(tasks, [down]) == ["note of tm-1", f"note of {CALLER}"]
    assert head.told == ["tm-1", CALLER]
