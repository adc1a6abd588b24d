"""The probe of a process and of the host that it is on: CPU of both, memory. Linux tells; it costs some 0.1 ms."""

import math
import os
import socket
from pathlib import Path
from typing import Any, Protocol

import psutil

from penstock.engine.control.machine_load import MachineReading
from penstock.engine.core.clock import SystemClock, process_cpu_ns, thread_cpu_ns
from penstock.engine.executors.managers.cpu_share import CpuShare
from penstock.engine.executors.managers.memory_limit import memory_limit

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_IO = Path("/proc/self/io")
_KILLS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"), Path("/proc/vmstat"))


class Probe(Protocol):
    """Reads the counters of a process and of its host."""

    def read(self) -> MachineReading:
        """Return them as they are now."""

    def thread_cpu_ns(self) -> int:
        """Return the time that the calling thread has used on a core."""


class SystemProbe:
    """Reads those of this process."""

    def __init__(self, share: CpuShare | None = None) -> None:
        """Begin; ``share`` knows how long the loop here has rested, None: it never does."""
        self._share = share
        # Containers of one machine share its cores and this number, whatever they call themselves.
        self._host = _BOOT.read_text().strip() if _BOOT.exists() else socket.gethostname()
        self._clock = SystemClock()
        self._process = psutil.Process()
        self._memory = memory_limit()

    def read(self) -> MachineReading:
        """Return the counters as they are now."""
        times = psutil.cpu_times(percpu=True)
        cores = tuple(core for core in usable_core_numbers() if core < len(times))
        return MachineReading(
            self._clock.monotonic_ns(),
            self._host,
            cores,
            process_cpu_ns(),
            tuple(_busy_ns(times[core]) for core in cores),
            self._process.memory_info().rss,
            0 if self._share is None else self._share.throttled_ns,
            _read_bytes(),
            _kills(),
            self._memory.bytes,
            self._memory.group,
        )

    def thread_cpu_ns(self) -> int:
        """Return the time that the calling thread has used on a core."""
        return thread_cpu_ns()


def _read_bytes() -> float:
    """Return what this process has read from disks, NaN where nobody says."""
    return _figure(_IO, "read_bytes:")


def _kills() -> float:
    """Return how many processes were ended for lack of memory in this control group, or on this host; NaN: unknown."""
    for path in _KILLS:
        if not math.isnan(found := _figure(path, "oom_kill")):
            return found
    return math.nan


def _figure(path: Path, name: str) -> float:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return math.nan
    return next((float(line.split()[1]) for line in lines if line.split()[:1] == [name]), math.nan)


def usable_core_numbers() -> tuple[int, ...]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _busy_ns(times: Any) -> int:
    """Return the time of a core that it did not rest; what the host of a virtual machine took is not ours either."""
    # Time of guests is part of that of users.
    idle = times.idle + getattr(times, "iowait", 0.0)
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return int((sum(times) - guests - idle) * 1e9)
