"""The name of a process as the system shows it."""

import sys
from contextlib import suppress
from pathlib import Path

_NAME = Path("/proc/self/comm")
"""The name of the main thread, whichever thread writes it."""


def set_process_name(name: str) -> None:
    """Let ``top`` and ``ps -e`` show a name, of 15 bytes at most; other systems than Linux show what they do."""
    if sys.platform == "linux":
        with suppress(OSError):
            _NAME.write_text(name)
