"""The name of a process as the system shows it."""

import ctypes
import sys

_SET_NAME = 15


def set_process_name(name: str) -> None:
    """Let ``top`` and ``ps -e`` show a name, of 15 bytes at most; other systems than Linux show what they do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)
