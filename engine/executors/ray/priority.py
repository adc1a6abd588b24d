"""The priority of processes that Ray has started: it makes its workers yield to all others (niceness 15)."""

import os
from contextlib import suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")
"""Linux has a priority for each thread; those that begin have that of the thread which begins them."""


def take_priority_of_parent() -> None:
    """Run with the priority of the raylet, as a task manager that is no actor does with that of its command.

    Without the right to (root, or a limit on niceness that allows it) the process stays as it is: then the raylet's
    environment decides, by RAY_worker_niceness.
    """
    wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
    with suppress(PermissionError):
        # A thread that has not been asked yet may begin others meanwhile.
        while others := [thread for thread in _threads() if _priority(thread) not in (wanted, None)]:
            for thread in others:
                with suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, thread, wanted)


def _threads() -> list[int]:
    return [int(entry.name) for entry in _THREADS.iterdir()]


def _priority(thread: int) -> int | None:
    """Return that of a thread; None: it has ended."""
    with suppress(ProcessLookupError):
        return os.getpriority(os.PRIO_PROCESS, thread)
    return None
