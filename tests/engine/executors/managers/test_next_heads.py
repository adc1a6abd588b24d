"""A task manager whose head is lost, or slow, and another that offers to lead it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest

from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.control_plane import ControlPlane
from penstock.engine.executors.managers.delivery import HEAD, Ends
from penstock.engine.executors.managers.host_process import ManagerSettings
from penstock.engine.executors.managers.leave_order import LeaveOrder
from penstock.engine.executors.managers.next_heads import NextHead, NextHeads
from penstock.engine.executors.managers.plan_parcel import pack_plan, pack_setup
from penstock.engine.executors.managers.service import serve
from penstock.engine.executors.managers.setup import ManagerSetup
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from tests.engine.executors.managers.scripted_managers import JOB, _graph

NAME = "tm-0"
PATIENCE_S = 60.0


class HeadSide:
    """The side of a head: what it hears, and whether its link is closed."""

    def __init__(self, run: int) -> None:
        here, self.there = socket.socketpair()
        self.heard: SimpleQueue[ms.ToHead] = SimpleQueue()
        self.closed = threading.Event()
        self._plane = ControlPlane(
            SystemClock(),
            lambda there, data: self.heard.put(ms.decode_for_head(data)),
            lambda there, reason: self.closed.set(),
        )
        self._plane.add(here, Ends(JOB, run, HEAD, NAME))

    def say(self, message: ms.ToManager) -> None:
        self._plane.send(NAME, ms.encode(message))

    def hear(self, kind: type) -> ms.ToHead:
        """Return the next message of a kind."""
        while True:
            message = self.heard.get(timeout=PATIENCE_S)
            if isinstance(message, kind):
                return message

    def close(self) -> None:
        self._plane.close()


class Served:
    """A task manager in a thread, led by a head of run 3."""

    def __init__(self, folder: Path, alone_s: float) -> None:
        self.heads = NextHeads()
        self.first = HeadSide(3)
        self.over = threading.Event()
        self._settings = ManagerSettings(NAME, JOB, 3, LeaveOrder(), self._end, alone_s=alone_s, heads=self.heads)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        plan = JobPlan(JOB, _graph(folder), LoopOptions(), folder / "job")
        self.first.say(ms.Setup(pack_setup(ManagerSetup(pack_plan(plan), bytes(32), HostOptions()))))
        self.first.hear(ms.Joined)

    def follow(self, run: int) -> tuple[HeadSide, NextHead]:
        side = HeadSide(run)
        head = NextHead(run, side.there)
        self.heads.offer(head)
        return side, head

    def _serve(self) -> None:
        serve(self.first.there, self._settings)
        self.over.set()

    def _end(self) -> None:
        self.over.set()
        raise SystemExit


@contextmanager
def served(folder: Path, alone_s: float) -> Iterator[Served]:
    scene = Served(folder, alone_s)
    try:
        yield scene
    finally:
        scene.first.say(ms.Leave())
        scene.first.close()
        assert scene.over.wait(PATIENCE_S)


def test_a_head_of_a_later_run_is_followed_and_the_one_before_commands_nothing(tmp_path: Path) -> None:
    with served(tmp_path, PATIENCE_S) as scene:
        second, head = scene.follow(4)
        second.say(ms.ReadHolding())
        assert isinstance(second.hear(ms.Holding), ms.Holding)
        # The first head was only slow: what it says now is said to nobody, and its link is closed.
        scene.first.say(ms.Leave())
        assert scene.first.closed.wait(PATIENCE_S)
        second.say(ms.Adopt(1, 4, None))
        adopted = second.hear(ms.Adopted)
        assert isinstance(adopted, ms.Adopted) and adopted.holding.run == 4
        assert not head.over.is_set() and not scene.over.is_set()
        second.say(ms.Leave())
        assert scene.over.wait(PATIENCE_S) and head.over.wait(PATIENCE_S)
        second.close()


@pytest.mark.parametrize("run", [2, 3])
def test_a_head_of_no_later_run_is_sent_away(tmp_path: Path, run: int) -> None:
    with served(tmp_path, PATIENCE_S) as scene:
        late, head = scene.follow(run)
        assert head.over.wait(PATIENCE_S) and late.closed.wait(PATIENCE_S)
        scene.first.say(ms.ReadHolding())
        scene.first.hear(ms.Holding)
        late.close()


def test_who_has_no_head_says_nothing_and_goes_on_under_the_next(tmp_path: Path) -> None:
    with served(tmp_path, PATIENCE_S) as scene:
        scene.first.close()
        second, _ = scene.follow(4)
        second.say(ms.ReadHolding())
        second.hear(ms.Holding)
        assert not scene.over.is_set()
        second.close()
        third, _ = scene.follow(5)
        third.say(ms.Adopt(1, 5, None))
        third.hear(ms.Adopted)
        third.say(ms.Leave())
        assert scene.over.wait(PATIENCE_S)
        third.close()


def test_who_finds_no_head_ends(tmp_path: Path) -> None:
    with served(tmp_path, 0.01) as scene:
        scene.first.close()
        assert scene.over.wait(PATIENCE_S)
