"""Orders at random to a running job: other numbers of instances, task managers that come and go, moves, and kills."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import psutil

from penstock.dsl.handle import Handle
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.moves.live_changes import fault
from penstock.engine.moves.move_orders import MoveOrder
from penstock.engine.plan.recut import instances_by_name
from penstock.model.errors import PenstockError, RetryableError
from tests.contracts.executors.metered import LONG_S, task_managers, until

MOST_INSTANCES = 4
MOST_MANAGERS = 3

CHANCES = {"rescale": 0.45, "move": 0.3, "scale": 0.15, "drain": 0.1}

Answer = Callable[[], object]
"""Waits until an order is carried out; raises if it was not."""


@dataclass
class Steering:
    """Gives orders to a job one after the other; each is done, or was refused with a reason, before the next."""

    handle: Handle
    seed: int
    open_to: Callable[[float], None]
    """Lets the job have so much of its input; it needs what is left for the orders that are left."""

    processes: Callable[[], Sequence[psutil.Process]] = task_managers
    """Returns the processes of task managers that live."""

    chances: Mapping[str, float] = field(default_factory=lambda: CHANCES)
    """How often each kind of order is given."""

    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    able: Counter[str] = field(default_factory=Counter)
    """How many of those done could have been without a restart: no kill was near, and the plan allows it."""

    live: Counter[str] = field(default_factory=Counter)
    """How many of these the job came to without one, as its restarts say."""

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        assert isinstance(self.handle._job, RecoveringJob)
        self._job = self.handle._job
        self._is_able = False

    def give(self, orders: int, kills: int) -> None:
        """Give so many orders that are carried out, with kills of task managers in between, and then all input.

        Every other kill comes once an order was given, which it may undo: then that is given again.

        Raises:
            AssertionError: the job has ended before.
        """
        kinds = {"rescale": self._rescale, "move": self._move, "scale": self._scale, "drain": self._drain}
        killing = dict(zip(self._rng.choice(orders, kills, replace=False).tolist(), range(kills), strict=True))
        done = 0
        while done < orders:
            self.open_to((done + 1) / (orders + 1))
            self._await_places()
            calm = done not in killing
            if killing.get(done, 1) % 2 == 0:
                self._kill()
                del killing[done]
            kind = str(self._rng.choice(list(self.chances), p=list(self.chances.values())))
            restarts, self._is_able = self._restarts(), calm and self._all_may_go()
            try:
                answer = kinds[kind]()
                if done in killing:
                    self._kill()
                    del killing[done]
                answer()
            except PenstockError as error:
                self.refused[f"{kind}: {error}"] += 1
            else:
                self.done[kind] += 1
                done += 1
                if calm and self._is_able:
                    self.able[kind] += 1
                    self.live[kind] += self._restarts() == restarts
        self.open_to(1.0)

    def _rescale(self) -> Answer:
        name = str(self._rng.choice(sorted(instances_by_name(self._job.graph))))
        wanted = {name: int(self._rng.integers(1, MOST_INSTANCES + 1))}
        self._is_able = self._job.preview_rescale(wanted).begins_anew is None
        asked = self._job.rescales.ask(wanted)
        return lambda: asked.answer.result(LONG_S)

    def _move(self) -> Answer:
        places = self._job.places()
        if not places:
            raise RetryableError("nothing is up")
        name = str(self._rng.choice(sorted(places)))
        manager = str(self._rng.choice(sorted(set(places.values()))))
        self._is_able = True
        asked = self._job.moves.ask(MoveOrder(name, manager))
        return lambda: asked.answer.result(LONG_S)

    def _scale(self) -> Answer:
        managers = self._job.managers
        before = len(managers.known().live)
        wanted = int(self._rng.choice([count for count in range(1, MOST_MANAGERS + 1) if count != before]))
        managers.resize(wanted)

        def answer() -> None:
            self._until(lambda: len(managers.known().live) == wanted and not managers.known().leaving)
            if wanted > before:
                self._job.rescale({}, LONG_S)

        return answer

    def _drain(self) -> Answer:
        managers = self._job.managers
        live = sorted(managers.known().live)
        if not live:
            raise RetryableError("nothing is up")
        name = str(self._rng.choice(live))
        managers.drain(name)
        return lambda: self._until(lambda: name not in (*managers.known().live, *managers.known().leaving))

    def _all_may_go(self) -> bool:
        """Return whether instances of all tasks can come and go while the job runs."""
        graph = self._job.graph
        return all(fault(graph, task) is None for task in graph.tasks)

    def _restarts(self) -> int:
        checkpoints = self.handle.metrics().checkpoints
        assert checkpoints is not None
        return checkpoints.restarts

    def _kill(self) -> None:
        self._until(lambda: bool(self.processes()))
        processes = self.processes()
        os.kill(processes[int(self._rng.integers(len(processes)))].pid, signal.SIGKILL)
        self.done["kill"] += 1

    def _await_places(self) -> None:
        self._until(lambda: bool(self._job.places()) and bool(self._job.managers.known().live))

    def _until(self, condition: Callable[[], bool]) -> None:
        until(condition, self.handle)
