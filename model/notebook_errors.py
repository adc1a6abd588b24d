"""The notebook's view of an error: its sentence and the user's own lines, none of Penstock's."""

import linecache
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

from penstock.model.source_location import is_own_module

_LIBRARIES = ("site-packages", "dist-packages")
_NOTEBOOKS = ("IPython", "ipykernel")
_STANDARD = sysconfig.get_path("stdlib")


class Sentence(BaseException):
    """A mixin of errors whose message says everything (a bug's does not). IPython shows `_render_traceback_`'s result.

    ``%debug`` walks through all frames.
    """

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}", *_lines(self)]


def _lines(error: BaseException) -> Iterator[str]:
    """Yield the user's lines that led to an error, the innermost first, then its notes and its cause."""
    for file, number in _places(error):
        yield f"  at {file}:{number}"
        text = linecache.getline(file, number).strip()
        if text:
            yield f"      {text}"
    for note in getattr(error, "__notes__", ()):
        yield f"  note: {note}"
    cause = error.__cause__
    if cause is not None:
        yield f"  caused by {type(cause).__name__}: {cause}"
        yield from _lines(cause)


def _places(error: BaseException) -> list[tuple[str, int]]:
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_users(str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename)
    ]
    return frames[::-1]


def _is_users(module: str, file: str) -> bool:
    if is_own_module(module) or module.partition(".")[0] in _NOTEBOOKS:
        return False
    if file.startswith(("<frozen", _STANDARD)):
        return False
    return not any(folder in Path(file).parts for folder in _LIBRARIES)
