"""The probe of a process and of the host that it is on: CPU of both, memory. Linux tells; it costs some 0.1 ms."""

import os
import socket
from pathlib import Path
from typing import Any, Protocol

import psutil

from penstock.engine.control.machine_load import MachineReading
from penstock.engine.core.clock import SystemClock, process_cpu_ns, thread_cpu_ns

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Probe(Protocol):
    """Reads the counters of a process and of its host."""

    def read(self) -> MachineReading:
        """Return them as they are now."""

    def thread_cpu_ns(self) -> int:
        """Return the time that the calling thread has used on a core."""


class SystemProbe:
    """Reads those of this process."""

    def __init__(self) -> None:
        """Begin."""
        # Containers of one machine share its cores and this number, whatever they call themselves.
        self._host = _BOOT.read_text().strip() if _BOOT.exists() else socket.gethostname()
        self._clock = SystemClock()
        self._process = psutil.Process()

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
        )

    def thread_cpu_ns(self) -> int:
        """Return the time that the calling thread has used on a core."""
        return thread_cpu_ns()


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
