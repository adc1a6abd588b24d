"""Locations in the user's code: the file and line that error messages name.

Expressions and the DSL call it when they are built.
"""

import re
import sys
import sysconfig
import traceback
from pathlib import Path
from types import FrameType

_USER_PACKAGES = ("penstock.benchmarks", "penstock.replay", "penstock.examples")
_USER_FOLDERS = tuple(f"/penstock/{name.rpartition('.')[2]}/" for name in _USER_PACKAGES)
_OURS = str(Path(__file__).parents[1])
_STANDARD = sysconfig.get_path("stdlib")
_INSTALLED = ("/site-packages/", "/dist-packages/")
_FRAME = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)
_MOST_FRAMES = 20


def user_location() -> str:
    """Return ``file:line`` of the nearest caller that is not Penstock itself (benchmarks count as users)."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_own_module(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def user_traceback(error: BaseException) -> str:
    """Return an exception's traceback as text, from the first frame on that is not Penstock's own."""
    trace = error.__traceback__
    while trace is not None and is_own_module(trace.tb_frame.f_globals.get("__name__", "")):
        trace = trace.tb_next
    if trace is None:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-1))
    return "".join(traceback.format_exception(type(error), error, trace, limit=_MOST_FRAMES))


def innermost_user_line(text: str) -> str:
    """Return ``file:line`` of the last frame in a traceback's text that is the user's own, empty if there is none."""
    frames = [(file, line) for file, line in _FRAME.findall(text) if _is_users_file(file)]
    return ":".join(frames[-1]) if frames else ""


def user_line_inside(frame: FrameType | None, module: str) -> str:
    """Return ``file:line`` of the innermost frame that is the user's own, from ``frame`` outwards to those of a module.

    Empty if there is none.
    """
    while frame is not None and frame.f_globals.get("__name__") != module:
        if _is_users_file(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _is_users_file(file: str) -> bool:
    if file.startswith("<"):
        # What was typed at a prompt, as "<stdin>"; not what the interpreter brings along.
        return not file.startswith(("<frozen", "<__array_function__"))
    if file.startswith(_OURS):
        return any(folder in file for folder in _USER_FOLDERS)
    return not file.startswith(_STANDARD) and not any(folder in file for folder in _INSTALLED)


def is_own_module(module: str) -> bool:
    """Return whether a module is Penstock's own; benchmarks, replays and examples count as users' code."""
    if module != "penstock" and not module.startswith("penstock."):
        return False
    return not module.startswith(_USER_PACKAGES)
