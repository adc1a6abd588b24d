"""Describes failures in a user's file: a sentence, or else the user's own frames first."""

import sysconfig
import traceback
from pathlib import Path

import penstock
from penstock.model.error_origins import UserFrame, error_name, error_text, frame_count, note_lines, user_frames
from penstock.model.errors import PenstockError, UserError

_NOT_USERS = (str(Path(penstock.__file__).parent), sysconfig.get_path("stdlib"), "<")
_INSTALLED = ("site-packages", "dist-packages")


def describe_failure(error: BaseException) -> str:
    """Return the text a command prints for an exception; the full traceback is left to ``--debug``.

    A `UserError` is its sentence, the user's ``file:line`` if the sentence does not have it yet,
    and its notes. Any other exception is its type and message, then the user's frames, the
    innermost first.
    """
    frames = users_frames(error)
    notes = note_lines(error)
    if isinstance(error, SyntaxError):
        return "\n".join(["error: the file is not valid Python", *_syntax(error), *notes])
    if isinstance(error, UserError):
        text = error_text(error)
        place = f"{frames[0].file}:{frames[0].line}" if frames else ""
        has_place = not place or place in text
        return "\n".join([f"error: {text}", *([] if has_place else [f"  at {place}"]), *notes])
    lines = [f"error: {_headline(error)}", *notes]
    for frame in frames:
        lines.append(f"  at {frame.file}:{frame.line}, in {frame.function}")
        if frame.source:
            lines.append(f"      {frame.source}")
    cause = error.__cause__
    if cause is not None:
        lines.append(f"  caused by {_headline(cause)}")
    folded = frame_count(error) - len(frames)
    if folded:
        lines.append(f"  ({folded} frames of Penstock and of libraries are not shown; --debug shows them)")
    return "\n".join(lines)


def users_frames(error: BaseException) -> list[UserFrame]:
    """Return the frames of the user's own files that led to an error, the innermost first."""
    return [frame for frame in user_frames(error) if _is_users(frame.file)]


def _is_users(file: str) -> bool:
    return not file.startswith(_NOT_USERS) and not any(folder in Path(file).parts for folder in _INSTALLED)


def _headline(error: BaseException) -> str:
    text = error_text(error)
    if isinstance(error, PenstockError) and text:
        return text
    return f"{error_name(error)}: {text}" if text else error_name(error)


def _syntax(error: SyntaxError) -> list[str]:
    summary = traceback.TracebackException.from_exception(error)
    # They are shown as those of other errors are.
    summary.__notes__ = None
    return [line.rstrip("\n") for text in summary.format_exception_only() for line in text.splitlines()]
