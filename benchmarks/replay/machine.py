"""The machine of a measurement in a sentence, with its other load. Called by the benchmarks here."""

import os
import platform
from importlib.metadata import version


def machine(*libraries: str) -> str:
    """Return cores, the load of the last minute, and versions."""
    versions = ", ".join(f"{name} {version(name)}" for name in libraries)
    return (
        f"Measured on {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
        f"{', ' if versions else ''}{versions}; load average of the last minute {os.getloadavg()[0]:.1f} at the end."
    )
