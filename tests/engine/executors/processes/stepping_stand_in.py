"""A task manager whose loop does what it is told, one step for each word, and whose signs of life are the real ones."""

import socket
import threading
from collections.abc import Callable
from queue import SimpleQueue

from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.managers import delivery
from penstock.engine.executors.managers.control_plane import ControlPlane
from penstock.engine.executors.managers.delivery import Ends
from penstock.engine.executors.managers.host_process import ManagerSettings
from penstock.engine.executors.managers.messages import LeaveAsked, encode
from penstock.engine.executors.managers.step_report import Step, StepWatch

HEARTBEAT_S = 0.05
LONGEST_S = 0.2

_released = threading.Event()


def wait() -> None:
    """Wait for the head, which other threads hear."""
    _released.wait()


def work() -> None:
    """Work in Python until the head says that it is enough."""
    while not _released.is_set():
        sum(range(1_000))


def hold() -> None:
    """Let no other thread run."""
    pow(7, 10**12)


WORDS: dict[bytes, Callable[[], None]] = {b"wait": wait, b"work": work, b"hold": hold}


def serve(end: socket.socket, settings: ManagerSettings) -> None:
    """Take words one after the other, and say when one is done; ``release`` ends the one that is being done."""
    delivery.HEARTBEAT_NS = int(HEARTBEAT_S * 1e9)
    clock = SystemClock()
    words: SimpleQueue[bytes] = SimpleQueue()
    step: list[Step] = []

    def on_message(there: str, word: bytes) -> None:
        if word == b"release":
            _released.set()
        else:
            words.put(word)

    plane = ControlPlane(clock, on_message, lambda there, reason: settings.end_at_once())
    plane.add(end, Ends(settings.job, settings.run, settings.name, "head"))
    watch = StepWatch(
        lambda: step[0] if step else None,
        lambda report: plane.send("head", encode(report)),
        clock,
        longest_ns=int(LONGEST_S * 1e9),
        look_s=LONGEST_S / 4,
    )
    plane.send("head", encode(LeaveAsked()))
    while (word := words.get()) != b"leave":
        step.append(Step("map[1]", clock.monotonic_ns()))
        WORDS[word]()
        step.clear()
        _released.clear()
    watch.close()
    plane.close()
