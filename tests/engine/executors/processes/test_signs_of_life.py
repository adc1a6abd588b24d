"""Signs of life of real processes: user code that takes long, code that holds the interpreter lock, SIGSTOP."""

import inspect
import os
import signal
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.managers.control_plane import ControlPlane
from penstock.engine.executors.managers.delivery import Ends
from penstock.engine.executors.managers.liveness import Limits
from penstock.engine.executors.managers.messages import LeaveAsked, OutOfStep, StuckInStep, decode_for_head
from penstock.engine.executors.managers.watch import Dead, Finding, ManagerSigns, ManagerWatch, Stuck, WellAgain
from penstock.engine.executors.processes.launcher import ProcessLauncher
from tests.engine.executors.processes import stepping_stand_in

LIMITS = Limits(silence_ns=10_000_000_000, long_step_ns=400_000_000)
"""Where nobody is silent for long: longer than a busy machine lets a process wait."""

SHORT = Limits(silence_ns=5_000_000_000, long_step_ns=400_000_000)
"""Where somebody is."""

LOOK_S = 0.02
WAIT_LOOKS = 3_000


class WatchingHead:
    """A head that watches two task managers."""

    def __init__(self, limits: Limits) -> None:
        self.clock = SystemClock()
        self.launcher = ProcessLauncher("shop", 3, stepping_stand_in.__name__)
        self.plane = ControlPlane(self.clock, self._on_message, lambda there, reason: None)
        self.watch = ManagerWatch(limits)
        self.names = ("tm-0", "tm-1")
        self._up: SimpleQueue[str] = SimpleQueue()
        self._lock = threading.Lock()
        for name in self.names:
            self.plane.add(self.launcher.start(name), Ends("shop", 3, "head", name))
        for _ in self.names:
            self._up.get(timeout=60)

    def _on_message(self, there: str, body: bytes) -> None:
        match decode_for_head(body):
            case LeaveAsked():
                self._up.put(there)
            case StuckInStep() | OutOfStep() as report:
                with self._lock:
                    self.watch.hear(there, report, self.clock.monotonic_ns())

    def look(self, name: str) -> list[Finding]:
        """Return what is new of one of them: a busy machine may let the other one wait."""
        signs = {}
        for each in self.names:
            heard_ns = self.plane.heard_ns(each)
            assert heard_ns is not None
            signs[each] = ManagerSigns(heard_ns, self.launcher.cpu_ns(each))
        with self._lock:
            findings = self.watch.look(self.clock.monotonic_ns(), signs)
        return [finding for finding in findings if finding.name == name]

    def next(self, name: str) -> Finding:
        """Look until something is said of one of them, which must be one thing."""
        for _ in range(WAIT_LOOKS):
            findings = self.look(name)
            if findings:
                (finding,) = findings
                return finding
            threading.Event().wait(LOOK_S)
        raise AssertionError("nothing was said")

    def close(self) -> None:
        self.plane.close()
        self.launcher.close(0.0)


@pytest.fixture
def head(request: pytest.FixtureRequest) -> Iterator[WatchingHead]:
    watching = WatchingHead(getattr(request, "param", LIMITS))
    for name in watching.names:
        watching.look(name)
    yield watching
    watching.close()


@pytest.mark.parametrize("word", ["wait", "work"])
def test_a_step_that_takes_long_is_said_with_instance_and_line_and_so_is_its_end(head: WatchingHead, word: str) -> None:
    head.plane.send("tm-1", word.encode())
    stuck = head.next("tm-1")
    assert isinstance(stuck, Stuck)
    function = getattr(stepping_stand_in, word)
    lines, first = inspect.getsourcelines(function)
    said, _, place = stuck.text.partition(": map[1], ")
    assert said.startswith("task manager 'tm-1' has been in one step for ")
    file, _, line = place.rpartition(":")
    assert file == stepping_stand_in.__file__ and first < int(line) < first + len(lines)
    head.plane.send("tm-1", b"release")
    assert head.next("tm-1") == WellAgain("tm-1", "task manager 'tm-1' goes on")


@pytest.mark.parametrize("head", [SHORT], indirect=True, ids=["short"])
def test_who_holds_the_interpreter_lock_is_silent_but_not_lost(head: WatchingHead) -> None:
    head.plane.send("tm-0", b"hold")
    stuck = head.next("tm-0")
    assert isinstance(stuck, Stuck)
    assert stuck.text.startswith("task manager 'tm-0' has said nothing for ")
    assert "but uses a core" in stuck.text
    # Twice as long as a process that used none would live.
    until_ns = head.clock.monotonic_ns() + SHORT.silence_ns
    while head.clock.monotonic_ns() < until_ns:
        assert head.look("tm-0") == []
        threading.Event().wait(LOOK_S)
    head.launcher.kill("tm-0")
    assert head.launcher.ended("tm-0") == "it was killed by SIGKILL"


@pytest.mark.parametrize("head", [SHORT], indirect=True, ids=["short"])
def test_who_is_stopped_for_a_moment_is_not_spoken_of_and_for_long_is_lost(head: WatchingHead) -> None:
    pid = head.launcher.pid("tm-0")
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    stopped_ns = head.clock.monotonic_ns()
    assert head.look("tm-0") == []
    os.kill(pid, signal.SIGCONT)
    while (heard_ns := head.plane.heard_ns("tm-0")) is not None and heard_ns < stopped_ns:
        assert head.look("tm-0") == []
    os.kill(pid, signal.SIGSTOP)
    dead = head.next("tm-0")
    assert isinstance(dead, Dead)
    assert head.clock.monotonic_ns() - stopped_ns >= SHORT.silence_ns
    head.launcher.kill("tm-0")
    assert head.launcher.ended("tm-0") == "it was killed by SIGKILL"
