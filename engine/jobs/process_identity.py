"""The identity of this process, and the liveness of others on this machine. For the owner of a lease."""

import getpass
import os
import socket
from contextlib import suppress
from pathlib import Path

from penstock.state.leases.run_records import Owner

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_process(job: str, since_us: int) -> Owner:
    """Return this process as the owner of a run of ``job`` that begins at ``since_us``."""
    host = socket.gethostname()
    return Owner(
        job=job,
        user=_user(),
        host=host,
        machine=_machine(host),
        pid=os.getpid(),
        process_start=_start(os.getpid()) or "",
        since_us=since_us,
    )


def is_alive(owner: Owner) -> bool:
    """Return whether the process of an owner on this machine lives: one that was killed and not waited for does not."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(owner.pid, 0)
        start = _start(owner.pid)
        return start is not None and start == owner.process_start
    return _start(owner.pid) == owner.process_start != ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _machine(host: str) -> str:
    """Return what is the same for processes that see each other: a boot of a machine and a space of process ids."""
    with suppress(OSError):
        return f"{_BOOT.read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    return host


def _start(pid: int) -> str | None:
    """Return when a process began, in ticks of its machine; empty without /proc, None if there is no such process."""
    if not _BOOT.exists():
        return ""
    try:
        # The name of the program, in parentheses, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
