"""Errors on their way from one process to another: as values, and as errors again.

No error is pickled: what comes from another process is data.
"""

import builtins
import traceback
from collections.abc import Iterator

import msgspec

from penstock.model import errors
from penstock.model.error_origins import (
    ErrorOrigin,
    UserFrame,
    frame_count,
    origin_of,
    set_origin,
    user_frames,
)
from penstock.model.errors import BugError, PenstockError

LONGEST_TEXT = 100_000
"""The most characters of a message or a traceback that travel."""

MOST_CAUSES = 8
"""The most errors in a row that travel with the one that they have caused."""

MOST_FRAMES = 1_000
"""The most frames of the user's own code that travel, from the innermost on."""

_DECISIVE = (PenstockError, ConnectionError, TimeoutError)

Plain = str | int | float | bool | None


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error: the names of its class and of the classes that this one extends, nearest first, and what it says.

    ``args`` are what it is made of, if that is plain; empty if not, or if no other process would know what to make.
    ``traceback`` shows where it was raised, in that process; empty if it was not raised. ``frames`` are those of the
    user's own code, the innermost first, out of ``depth`` in all. ``place`` is the process that raised it if that one
    is another than the process that says so, as a head actor does for its task managers; empty if not.
    """

    classes: tuple[str, ...]
    message: str
    notes: tuple[str, ...] = ()
    traceback: str = ""
    args: tuple[Plain | tuple[Plain, ...], ...] = ()
    frames: tuple[UserFrame, ...] = ()
    depth: int = 0
    cause: "Failure | None" = None
    place: str = ""


def failure_of(error: BaseException) -> Failure:
    """Return an error as a value, with what has caused it."""
    return _failure_of(error, MOST_CAUSES)


def _failure_of(error: BaseException, causes: int) -> Failure:
    origin = origin_of(error)
    if origin is not None:
        raised = origin.traceback
    else:
        raised = "" if error.__traceback__ is None else "".join(traceback.format_tb(error.__traceback__))
    notes = [note for note in getattr(error, "__notes__", ()) if origin is None or note != origin.note]
    cause = error.__cause__
    return Failure(
        tuple(_names(type(error))),
        str(error)[:LONGEST_TEXT],
        tuple(note[:LONGEST_TEXT] for note in notes),
        raised[-LONGEST_TEXT:],
        _plain_args(error),
        tuple(user_frames(error)[:MOST_FRAMES]),
        frame_count(error),
        None if cause is None or not causes else _failure_of(cause, causes - 1),
        "" if origin is None else origin.place,
    )


def error_of(failure: Failure, place: str) -> BaseException:
    """Return the error that a failure stands for, and keep with it where it was raised, in ``place`` unless it says.

    It is of the nearest class that this process knows without importing anything: one of Penstock's or of Python's.
    The name of another class stands before its message.
    """
    error = next(_candidates(failure), None) or BugError(failure.message)
    for note in failure.notes:
        error.add_note(note)
    origin = ErrorOrigin(
        failure.place or place,
        _own_name(failure.classes[0]),
        failure.message,
        failure.frames,
        failure.depth,
        failure.traceback,
    )
    set_origin(error, origin)
    if failure.cause is not None:
        error.__cause__ = error_of(failure.cause, place)
    return error


def _names(kind: type) -> Iterator[str]:
    for ancestor in kind.__mro__:
        if issubclass(ancestor, BaseException):
            yield f"{ancestor.__module__}.{ancestor.__qualname__}"


def _own_name(name: str) -> str:
    return name.rpartition(".")[2]


def _known(name: str) -> type[BaseException] | None:
    """Return the class of this name if it is an error of Penstock's or of Python's."""
    module, _, own = name.rpartition(".")
    kind = getattr({errors.__name__: errors, builtins.__name__: builtins}.get(module), own, None)
    return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None


def _plain_args(error: BaseException) -> tuple[Plain | tuple[Plain, ...], ...]:
    """Return what an error can be made of again by its class alone, empty if it cannot."""
    args = error.args
    if isinstance(error, OSError) and isinstance(error.filename, str):
        args = (*args, error.filename)
    kind = type(error)
    if kind is not _known(next(_names(kind))) or not all(map(_is_plain, args)):
        return ()
    try:
        same = str(kind(*args)) == str(error)
    except TypeError:
        return ()
    return args if same else ()


def _is_plain(value: object) -> bool:
    if type(value) is tuple:
        return all(item is None or type(item) in (str, int, float, bool) for item in value)
    if type(value) is int:
        return abs(value) < 1 << 63
    return value is None or type(value) in (float, bool) or (type(value) is str and len(value) <= LONGEST_TEXT)


def _candidates(failure: Failure) -> Iterator[BaseException]:
    """Yield the errors that may stand for a failure, the best first.

    The class itself is, then one of Penstock's and those of connections and time, by which it is decided whether to
    try again, then any other.
    """
    known = [(number, kind) for number, name in enumerate(failure.classes) if (kind := _known(name)) is not None]
    for number, kind in sorted(known, key=lambda item: (item[0] > 0, not issubclass(item[1], _DECISIVE), item[0])):
        try:
            if number > 0:
                yield kind(": ".join(filter(None, (_own_name(failure.classes[0]), failure.message))))
            else:
                yield kind(*failure.args) if failure.args else kind(failure.message)
        except TypeError:
            # It is made of other arguments than a message.
            continue
