"""A task manager that knows a few words: what runs in a process that a launcher has started for a test.

A line comes, a line goes: JSON lists of a word and its arguments, over the bare socket of the control link.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.engine.checkpoint.run_scratch import RunScratch
from penstock.engine.executors.managers.host_process import ManagerSettings

_kept: list[object] = []
_interrupts: list[int] = []


def serve(end: socket.socket, settings: ManagerSettings) -> None:
    """Answer until ``leave`` comes, or the order to leave; end at once when the other side is gone."""
    with end, end.makefile("rw") as lines:

        def say(answer: object) -> None:
            lines.write(json.dumps(answer) + "\n")
            lines.flush()

        say(["up", settings.name, settings.job, settings.run, os.getpid()])
        settings.leave.when_given(lambda: end.shutdown(socket.SHUT_RD))
        for line in lines:
            word, *arguments = json.loads(line)
            if word == "leave":
                return
            say(WORDS[word](*arguments) if word in WORDS else word)
            if word in AFTER_THE_ANSWER:
                AFTER_THE_ANSWER[word](*arguments)
        if not settings.leave.is_given:
            settings.end_at_once()
        say("left")


def surroundings() -> dict[str, Any]:
    """Return what a user's code could see of the process."""
    import numba
    import pyarrow as pa

    main: Any = sys.modules["__main__"]
    return {
        "path": sys.path,
        "arguments": sys.argv,
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
        "optimize": sys.flags.optimize,
        "dev_mode": sys.flags.dev_mode,
        "utf8_mode": sys.flags.utf8_mode,
        "isolated": sys.flags.isolated,
        "warnings": sys.warnoptions,
        "options": dict(sys._xoptions),
        "threads": [pa.cpu_count(), numba.get_num_threads()],
        "inheritable": [name for name in range(3, 256) if _is_inheritable(name)],
        "main_file": getattr(main, "__file__", None),
        "leads_its_session": os.getsid(0) == os.getpid(),
        "blocked": [*signal.pthread_sigmask(signal.SIG_BLOCK, ())],
    }


def _is_inheritable(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False


def _claim_scratch(directory: str) -> str:
    scratch = RunScratch(Path(directory))
    scratch.claim()
    (scratch.path / "state").mkdir()
    _kept.append(scratch)
    return str(scratch.path)


def _record_interrupts() -> None:
    signal.signal(signal.SIGINT, lambda number, frame: _interrupts.append(number))


def _print_lines(threads: int, lines: int, length: int) -> None:
    """Print numbered lines from many threads, each in pieces, to standard output and error in turns."""

    def run(number: int) -> None:
        for line in range(lines):
            print(os.getpid(), number, line, "x" * length, file=(sys.stdout, sys.stderr)[line % 2])

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def _print_begun(text: str) -> None:
    """Print what is no line yet in a thread that ends."""
    printing = threading.Thread(target=print, args=(text,), kwargs={"end": ""})
    printing.start()
    printing.join()


def _leave_behind() -> int:
    """Start a program that has this process's standard output and lives on; return its number."""
    return subprocess.Popen(["sleep", "600"], start_new_session=True).pid


WORDS: dict[str, Callable[..., Any]] = {
    "surroundings": surroundings,
    "scratch": _claim_scratch,
    "record interrupts": _record_interrupts,
    "interrupts": lambda: len(_interrupts),
    "print": _print_lines,
    "print begun": _print_begun,
    "flush": lambda: [output.drain() for output in (sys.stdout.buffer, sys.stderr.buffer)],
    "leave behind": _leave_behind,
}

AFTER_THE_ANSWER: dict[str, Callable[..., Any]] = {
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    # No other thread of the process runs again.
    "hold": lambda: pow(7, 10**12),
    "exit": lambda status: sys.exit(status),
    "abort": os.abort,
}
