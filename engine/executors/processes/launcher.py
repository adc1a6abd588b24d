"""The launcher of task managers as processes of this machine.

They are started by `subprocess`, never by multiprocessing, which would run a script without a main guard again. Each is
in a session of its own, so that a Ctrl-C at the terminal reaches the head only.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import psutil

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Clock
from penstock.engine.executors.processes.child import HEAD_GONE
from penstock.engine.executors.processes.child_settings import ChildSettings, write_settings
from penstock.engine.executors.processes.descriptors import above_standard
from penstock.model.errors import BugError, OptionError, RetryableError, UserError

SERVICE = "penstock.engine.executors.managers.service"
"""The module whose ``serve`` is a task manager."""

KILLED_WITHIN_S = 10.0
"""How long the end of a killed process is awaited; a disk or network file system that hangs may hold it longer."""

# The same Penstock as here, wherever it is, without any change to what the user's own subprocesses are to inherit.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); import penstock; del sys.path[0]; "
    "from penstock.engine.executors.processes.child import main; main(sys.argv[2:])"
)


class ProcessLauncher:
    """Starts, watches and ends the task managers of one run of a job. Its methods are called by one thread at a time.

    The kernel ends a process with the *thread* that started it (PR_SET_PDEATHSIG), so that none outlives a head that is
    killed. That thread is the launcher's own, for whoever calls `start` may be one that ends while the job goes on. A
    process inherits the environment, standard output and error, and Python's options; working directory, `sys.path`,
    `sys.argv` and what stands in for standard output and error are those of when the launcher was made. Until it is
    closed, the head prints by whole lines, too.
    """

    def __init__(
        self, job: str, run: int, service: str = SERVICE, clock: Clock | None = None, cores: Sequence[int] = ()
    ) -> None:
        """Begin with no process. ``service`` is the module whose ``serve(end, settings)`` each one runs.

        Each process keeps to one of ``cores`` that no other has; without any they go where the system puts them.

        Raises:
            UserError: this system is not Linux, or the program that runs Python is not known.
        """
        if sys.platform != "linux":
            raise UserError(
                f"executor='processes' needs Linux, and this is {sys.platform}: "
                "leave the executor out to run the job in this process, or run it in a container"
            )
        if not sys.executable:
            raise UserError(
                "executor='processes' starts Python anew, and sys.executable does not say where it is: "
                "set it to the path of the interpreter"
            )
        # It needs Linux.
        from penstock.engine.executors.processes.forwarded_output import ForwardedOutput
        from penstock.engine.executors.processes.line_output import OutputLock, StandardLines

        self._job, self._run, self._service = job, run, service
        self._free_cores, self._pinned = list(cores), bool(cores)
        self._core_of: dict[str, int] = {}
        self._clock = clock or SystemClock()
        self._path = tuple(item for item in sys.path if isinstance(item, str))
        self._arguments = tuple(sys.argv)
        self._folder: Path | None = None
        with suppress(FileNotFoundError):
            self._folder = Path.cwd()
        self._lock_file = above_standard(os.memfd_create("penstock-output"))
        self._output_lock = OutputLock(self._lock_file)
        self._forwarded = ForwardedOutput()
        self._lines = StandardLines(self._output_lock)
        self._closed = False
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._killed: set[str] = set()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # It must not be joined at the interpreter's exit, while a job may still run in a thread of the user's.
        self._thread = Thread(target=self._spawn_until_closed, name="penstock-launcher", daemon=True)
        self._thread.start()

    def start(self, name: str) -> socket.socket:
        """Start the process of a task manager whose name is new; return this side's end of its control link.

        Raises:
            RetryableError: the system has no room for a process.
        """
        if self._closed or name in self._processes:
            raise BugError(f"task manager {name!r} is started twice, or after the launcher was closed")
        if self._pinned:
            if not self._free_cores:
                raise BugError(f"task manager {name!r} has no core of its own: all are taken")
            self._core_of[name] = self._free_cores.pop(0)
        here, there = socket.socketpair()
        started: Future[None] = Future()
        self._work.put(lambda: self._spawn(name, there, started))
        try:
            started.result()
        except OSError as error:
            here.close()
            self._free_core(name)
            raise RetryableError(f"the process of task manager {name!r} could not be started: {error}") from error
        except BaseException:
            here.close()
            raise
        return here

    def survivors(self) -> Mapping[str, socket.socket]:
        """Return nothing: processes end with their head."""
        return {}

    def has_room(self) -> bool:
        """Return False: that a process can be started is seen when it is."""
        return False

    def ended(self, name: str, patience_s: float = 0.0) -> str | None:
        """Return how a process has ended, in words; None: it lives, or did not end within ``patience_s``.

        Its link is closed a moment before it has ended.
        """
        process = self._processes[name]
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
        if process.returncode is None:
            return None
        if process.returncode == -signal.SIGKILL and name not in self._killed:
            return "it was killed by SIGKILL, as the kernel does where memory is short"
        return _end_in_words(process.returncode)

    def cpu_ns(self, name: str) -> int | None:
        """Return the time that a process has used on any core, in steps of some milliseconds; None: it has ended."""
        process = self._processes[name]
        with suppress(psutil.Error):
            if process.returncode is None:
                times = psutil.Process(process.pid).cpu_times()
                return int((times.user + times.system) * 1e9)
        return None

    def pid(self, name: str) -> int:
        """Return the number of a process."""
        return self._processes[name].pid

    def kill(self, name: str) -> None:
        """Kill a process, be it stopped, and wait for its end, `KILLED_WITHIN_S` at most."""
        process = self._processes[name]
        if process.poll() is None:
            self._killed.add(name)
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(KILLED_WITHIN_S)

    def forget(self, name: str) -> None:
        """Let go of a process, which is killed if it lives."""
        self.kill(name)
        self._killed.discard(name)
        del self._processes[name]
        self._free_core(name)

    def close(self, grace_s: float) -> None:
        """Wait for processes that were told to end, ``grace_s`` for all of them at most, and kill the others.

        Nothing is left of the launcher then; calling it again changes nothing.
        """
        until_ns = self._clock.monotonic_ns() + int(grace_s * 1e9)
        for name in self._processes:
            self.ended(name, max(0.0, (until_ns - self._clock.monotonic_ns()) / 1e9))
        # The thread's end kills what it started; until then none of them may be left without having been waited for.
        for process in self._processes.values():
            process.kill()
        for name in tuple(self._processes):
            self.forget(name)
        if not self._closed:
            self._closed = True
            self._work.put(None)
            self._thread.join()
            try:
                self._forwarded.close()
                self._lines.close()
            finally:
                self._output_lock.close()

    def _free_core(self, name: str) -> None:
        if name in self._core_of:
            self._free_cores.append(self._core_of.pop(name))
            self._free_cores.sort()

    def _spawn_until_closed(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _spawn(self, name: str, there: socket.socket, started: "Future[None]") -> None:
        """Start a process; keep it even if whoever waited for it was interrupted."""
        descriptors: list[int] = []
        try:
            descriptors.append(link := above_standard(there.detach()))
            settings = ChildSettings(
                name,
                self._job,
                self._run,
                link,
                self._lock_file,
                self._service,
                self._path,
                self._arguments,
                self._core_of.get(name),
            )
            descriptors.append(file := above_standard(write_settings(settings)))
            self._processes[name] = subprocess.Popen(
                [sys.executable, *_python_options(), "-c", _PROGRAM, _home(), name, str(os.getpid()), str(file)],
                stdin=subprocess.DEVNULL,
                stdout=self._forwarded.descriptor("stdout"),
                stderr=self._forwarded.descriptor("stderr"),
                cwd=self._folder,
                pass_fds=(*descriptors, self._lock_file),
                start_new_session=True,
            )
        except BaseException as error:
            started.set_exception(error)
        else:
            started.set_result(None)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def cores_to_pin(count: int, usable: Sequence[int]) -> Sequence[int]:
    """Return a core for each of so many task managers, of those that may be used.

    Raises:
        OptionError: there are not so many.
    """
    if count > len(usable):
        raise OptionError(
            f"pin needs a core for each of {count} task managers, and {len(usable)} may be used: start fewer of them, "
            "or leave pin out"
        )
    return tuple(usable[:count])


def _home() -> str:
    """Return the folder, or the archive, in which this Penstock is."""
    return str(Path(sys.modules["penstock"].__file__ or "").absolute().parents[1])


def _python_options() -> list[str]:
    """Return the options with which this interpreter was started; besides, the current folder is not on its path."""
    options: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    passed = {option.partition("=")[0] for option in options}
    for name, value in sys._xoptions.items():
        if name not in passed:
            options += ["-X", name if value is True else f"{name}={value}"]
    return ["-P", *options]


def _end_in_words(code: int) -> str:
    if code == HEAD_GONE:
        return "it ended since it saw no head: its parent has gone, or is a script that sys.executable names"
    if code >= 0:
        return f"it exited with status {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"
