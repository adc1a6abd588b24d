"""The memory that a process may use: the least limit of the control groups it is in, or what the host has. Linux."""

from dataclasses import dataclass
from pathlib import Path

import psutil

_GROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A limit in bytes; all processes of a host that name the same ``group`` share it, "" being the host's own."""

    bytes: float
    group: str = ""


def memory_limit(groups: Path = _GROUPS, own: Path = _OWN, host_bytes: int | None = None) -> MemoryLimit:
    """Return the limit of this process; a control group whose limit is not below the memory of the host has none."""
    found = MemoryLimit(float(psutil.virtual_memory().total if host_bytes is None else host_bytes))
    for folder, name in _limits(groups, own):
        try:
            text = (folder / name).read_text(encoding="ascii").strip()
            number = folder.stat().st_ino
        except OSError:
            continue
        if text.isdecimal() and int(text) < found.bytes:
            found = MemoryLimit(float(text), str(number))
    return found


def _limits(groups: Path, own: Path) -> list[tuple[Path, str]]:
    """Return the folders of the control groups that bound memory, from the process's own up, and their files' name."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found: list[tuple[Path, str]] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the path may be that which the host knows; the folder above is the container's own.
        parts = [part for part in path.split("/") if part not in ("", "..")]
        found += [(root.joinpath(*parts[:depth]), name) for depth in range(len(parts), -1, -1)]
    return found
