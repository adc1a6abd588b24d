"""The cores that this process may use: its affinity, and the quota of its control group."""

import math
import os
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")

_OWN = Path("/proc/self/cgroup")


def usable_cores(root: Path = CONTROL_GROUPS, own: Path = _OWN) -> int:
    """Return the number of cores that are worth a process each, 1 at least.

    A quota of 2.5 cores is worth 2. Of nested control groups the smallest quota counts.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for folder in _folders(root, own) if (quota := _quota(folder)) is not None]
    return max(1, min([affinity, *(math.floor(quota) for quota in quotas)]))


def _folders(root: Path, own: Path) -> list[Path]:
    """Return the folders of the control groups of this process, from its own to the outermost."""
    folders = {root, root / "cpu"}
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        base = root / "cpu" if "cpu" in controllers.split(",") else root
        group = base / path.lstrip("/")
        folders |= {group, *(parent for parent in group.parents if parent.is_relative_to(base))}
    return sorted(folders)


def _quota(folder: Path) -> float | None:
    """Return the quota of one control group in cores, of version 2 or 1; None: it has none."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not (quota.isdigit() and period.isdigit()) or int(period) == 0:
        return None
    return int(quota) / int(period)
