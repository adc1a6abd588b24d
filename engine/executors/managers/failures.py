"""Errors on their way from one process to another: as values, and as errors again.

No error is pickled: what comes from another process is data.
"""

import builtins
import traceback
from collections.abc import Iterator

import msgspec

from penstock.model import errors
from penstock.model.errors import BugError

LONGEST_TEXT = 100_000
"""The most characters of a message or a traceback that travel."""


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error: the names of its class and of the classes that this one extends, nearest first, and what it says.

    ``traceback`` shows where it was raised, in that process; empty if it was not raised.
    """

    classes: tuple[str, ...]
    message: str
    notes: tuple[str, ...] = ()
    traceback: str = ""


def failure_of(error: BaseException) -> Failure:
    """Return an error as a value."""
    plain = len(error.args) == 1 and isinstance(error.args[0], str)
    raised = "" if error.__traceback__ is None else "".join(traceback.format_tb(error.__traceback__))
    return Failure(
        tuple(_names(type(error))),
        (error.args[0] if plain else str(error))[:LONGEST_TEXT],
        tuple(note[:LONGEST_TEXT] for note in getattr(error, "__notes__", ())),
        raised[-LONGEST_TEXT:],
    )


def error_of(failure: Failure, place: str) -> BaseException:
    """Return the error that a failure stands for, with a note that shows where in ``place`` it was raised.

    It is of the nearest class that this process knows without importing anything: one of Penstock's or of Python's.
    The name of another class stands before its message.
    """
    error = next(_candidates(failure), None) or BugError(failure.message)
    for note in failure.notes:
        error.add_note(note)
    if failure.traceback:
        error.add_note(f"Raised in {place}:\n{failure.traceback.rstrip()}")
    return error


def _names(kind: type) -> Iterator[str]:
    for ancestor in kind.__mro__:
        if issubclass(ancestor, BaseException):
            yield f"{ancestor.__module__}.{ancestor.__qualname__}"


def _candidates(failure: Failure) -> Iterator[BaseException]:
    for number, name in enumerate(failure.classes):
        module, _, own = name.rpartition(".")
        holder = {errors.__name__: errors, builtins.__name__: builtins}.get(module)
        kind = getattr(holder, own, None)
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            continue
        first = failure.classes[0].rpartition(".")[2]
        message = failure.message if number == 0 else f"{first}: {failure.message}"
        try:
            yield kind(message)
        except TypeError:
            # It is made of other arguments than a message.
            continue
