"""The process of a task manager, from its first line to its end. `ProcessLauncher` starts it.

It ends with its head: the kernel kills it when the thread that started it ends, be the process stopped or its user's
code holding the interpreter lock; and its task manager calls `end_at_once` when the link to the head is closed.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from penstock.engine.executors.managers.process_name import set_process_name

USAGE = 2
"""Exit status of a process that no launcher has started."""

HEAD_GONE = 3
"""Exit status of a process whose head is not there any more."""

_ON_PARENTS_DEATH = 1


def main(arguments: Sequence[str]) -> NoReturn:
    """Be the task manager of this name; ``arguments`` are it, the head's process id, and the file of its settings."""
    name, head, descriptor = arguments
    _end_with(int(head))
    set_process_name(f"penstock {name}")
    # Imports cost time in which the head may go, and so come behind the line that ends this process with it.
    import atexit
    from importlib import import_module
    from socket import socket

    from penstock.engine.core.failpoint_settings import arm_from
    from penstock.engine.core.process_tuning import tune_process
    from penstock.engine.executors.managers.host_probe import SystemProbe
    from penstock.engine.executors.managers.host_process import ManagerSettings
    from penstock.engine.executors.managers.leave_order import LeaveOrder
    from penstock.engine.executors.managers.one_core import hold_libraries_to_one_core
    from penstock.engine.executors.processes.child_settings import read_settings
    from penstock.engine.executors.processes.line_output import OutputLock, StandardLines

    leave = LeaveOrder()
    _handle_signals(leave.give)
    settings = read_settings(int(descriptor))
    if settings.core is not None:
        # Before there are threads: each of them keeps to the core of the one that starts it.
        os.sched_setaffinity(0, {settings.core})
    began = SystemProbe().read()
    for inherited in (settings.link, settings.output_lock):
        os.set_inheritable(inherited, False)
    atexit.register(StandardLines(OutputLock(settings.output_lock)).drain)
    # Files beside the user's program may have names of modules that are to be imported here; they come first below.
    sys.path += [item for item in settings.path if item not in sys.path]
    hold_libraries_to_one_core()
    serve = import_module(settings.service).serve
    tune_process()
    arm_from(os.environ, name)
    sys.path[:], sys.argv[:] = settings.path, settings.arguments
    serve(
        socket(fileno=settings.link),
        ManagerSettings(settings.name, settings.job, settings.run, leave, end_at_once, began=began),
    )
    sys.exit(0)


def end_at_once() -> NoReturn:
    """End this process, whatever its threads do; may be called by any of them."""
    os._exit(HEAD_GONE)


def _end_with(head: int) -> None:
    """Let the kernel kill this process as soon as the thread that started it has ended, and its process with it."""
    process = ctypes.CDLL(None, use_errno=True)
    if process.prctl(_ON_PARENTS_DEATH, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not take prctl(PR_SET_PDEATHSIG)")
    # It may have ended before.
    if os.getppid() != head:
        end_at_once()


def _handle_signals(on_termination: Callable[[], None]) -> None:
    """Pass SIGINT by, which is for the head; call this on SIGTERM."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            on_termination()

    # Handlers, unlike a signal that is ignored, are not passed on to programs that the user's code starts.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


if __name__ == "__main__":
    sys.stderr.write(
        "error: this is the process of a task manager, which jobs start for themselves; run your pipeline instead\n"
    )
    sys.exit(USAGE)
