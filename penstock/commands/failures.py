"""Describes failures in a user's file: a sentence, or else the user's own frames first."""

import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

import penstock
from penstock.model.errors import PenstockError, UserError

_NOT_USERS = (str(Path(penstock.__file__).parent), sysconfig.get_path("stdlib"), "<")
_INSTALLED = ("site-packages", "dist-packages")


def describe_failure(error: BaseException) -> str:
    """Return the text a command prints for an exception; the full traceback is left to ``--debug``.

    A `UserError` is its sentence, the user's ``file:line`` if the sentence does not have it yet,
    and its notes. Any other exception is its type and message, then the user's frames, the
    innermost first.
    """
    frames = list(user_frames(error.__traceback__))
    notes = [f"  note: {note}" for note in getattr(error, "__notes__", ())]
    if isinstance(error, SyntaxError):
        return "\n".join(["error: the file is not valid Python", *_syntax(error), *notes])
    if isinstance(error, UserError):
        place = f"{frames[0].filename}:{frames[0].lineno}" if frames else ""
        has_place = not place or place in str(error)
        return "\n".join([f"error: {error}", *([] if has_place else [f"  at {place}"]), *notes])
    lines = [f"error: {_headline(error)}", *notes]
    for frame in frames:
        lines.append(f"  at {frame.filename}:{frame.lineno}, in {frame.name}")
        if frame.line:
            lines.append(f"      {frame.line}")
    cause = error.__cause__
    if cause is not None:
        lines.append(f"  caused by {_headline(cause)}")
    folded = len(traceback.extract_tb(error.__traceback__)) - len(frames)
    if folded:
        lines.append(f"  ({folded} frames of Penstock and of libraries are not shown; --debug shows them)")
    return "\n".join(lines)


def user_frames(trace: TracebackType | None) -> Iterator[traceback.FrameSummary]:
    """Yield the frames of the user's own code, the innermost first."""
    walked = [(frame, line) for frame, line in traceback.walk_tb(trace) if _is_users(frame)]
    yield from reversed(traceback.StackSummary.extract(iter(walked)))


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith(_NOT_USERS) and not any(folder in Path(file).parts for folder in _INSTALLED)


def _headline(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, PenstockError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _syntax(error: SyntaxError) -> list[str]:
    lines = traceback.format_exception_only(error)
    return [line.rstrip("\n") for text in lines for line in text.splitlines()]
