"""The priority of processes that Ray has started: it makes its workers yield to all others (niceness 15)."""

import os
from contextlib import suppress


def take_priority_of_parent() -> None:
    """Run with the priority of the raylet, as a task manager that is no actor does with that of its command.

    Without the right to (root, or a limit on niceness that allows it) the process stays as it is: then the raylet's
    environment decides, by RAY_worker_niceness.
    """
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, os.getppid()))
