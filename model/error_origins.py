"""Where errors were raised: the user's own lines, also of an error that another process has raised.

What that process knew comes as values and is kept with the error that stands for it here.
"""

import linecache
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.model.source_location import is_own_module

_LIBRARIES = ("site-packages", "dist-packages")
_NOTEBOOKS = ("IPython", "ipykernel")
_STANDARD = sysconfig.get_path("stdlib")
_ATTRIBUTE = "_penstock_origin"


@dataclass(frozen=True, slots=True)
class UserFrame:
    """A frame of the user's own code: where it was, and the text of its line where the error was raised.

    The text is empty if it was not known there, as that of a cell in a notebook.
    """

    file: str
    line: int
    function: str
    text: str

    @property
    def source(self) -> str:
        """The text of the line as this process knows it, empty if nobody knows it."""
        return self.text or linecache.getline(self.file, self.line).strip()


@dataclass(frozen=True, slots=True)
class ErrorOrigin:
    """The origin of an error that another process raised: ``place`` is that process, ``traceback`` its text.

    ``name`` is the error's class there and ``text`` what it said. ``frames`` are those of the user's own code, the
    innermost first, out of ``depth`` in all.
    """

    place: str
    name: str
    text: str
    frames: tuple[UserFrame, ...]
    depth: int
    traceback: str = ""

    @property
    def note(self) -> str:
        """The note to the error by which Python's own traceback shows it."""
        return f"Raised in {self.place}:\n{self.traceback.rstrip()}"


def set_origin(error: BaseException, origin: ErrorOrigin) -> None:
    """Keep with an error where the one was raised that it stands for."""
    error.__dict__[_ATTRIBUTE] = origin
    if origin.traceback:
        error.add_note(origin.note)


def origin_of(error: BaseException) -> ErrorOrigin | None:
    """Return what `set_origin` has kept."""
    origin = error.__dict__.get(_ATTRIBUTE)
    return origin if isinstance(origin, ErrorOrigin) else None


def user_frames(error: BaseException) -> list[UserFrame]:
    """Return the frames of the user's own code that led to an error, the innermost first: elsewhere, then here."""
    walked = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_users(str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename)
    ]
    here = [
        UserFrame(item.filename, item.lineno or 0, item.name, item.line or "")
        for item in traceback.StackSummary.extract(iter(walked))
    ]
    origin = origin_of(error)
    return [*(() if origin is None else origin.frames), *reversed(here)]


def frame_count(error: BaseException) -> int:
    """Return the number of all frames that led to an error, elsewhere and here."""
    origin = origin_of(error)
    return (0 if origin is None else origin.depth) + sum(1 for _ in traceback.walk_tb(error.__traceback__))


def error_name(error: BaseException) -> str:
    """Return the name of an error's class, where it was raised."""
    origin = origin_of(error)
    return type(error).__name__ if origin is None else origin.name


def error_text(error: BaseException) -> str:
    """Return what an error says, where it was raised."""
    origin = origin_of(error)
    return str(error) if origin is None else origin.text


def note_lines(error: BaseException) -> Iterator[str]:
    """Yield the notes to an error as indented lines for people; of that on its origin only what names the process."""
    origin = origin_of(error)
    notes: Sequence[Any] = getattr(error, "__notes__", ())
    for note in notes:
        own = origin is None or note != origin.note
        yield f"  note: {note}" if own or origin is None else f"  raised in {origin.place}"


def _is_users(module: str, file: str) -> bool:
    if is_own_module(module) or module.partition(".")[0] in _NOTEBOOKS:
        return False
    if file.startswith(("<frozen", _STANDARD)):
        return False
    return not any(folder in Path(file).parts for folder in _LIBRARIES)
