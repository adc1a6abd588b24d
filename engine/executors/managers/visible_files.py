"""The name of the files that a process sees. Imports nothing but Python's own modules: who has begun asks it early."""

import platform
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS = Path("/proc/self/ns/mnt")


def visible_files() -> str:
    """Return a name of the files that this process sees: processes of one machine and one container share it."""
    try:
        return f"{_BOOT.read_text().strip()} {_MOUNTS.readlink()}"
    except OSError:
        return platform.node()
