"""Output that nobody reads any more, as that of ``python pipeline.py | head``."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from penstock.model.errors import OutputClosedError


@contextmanager
def reading_ends(file: TextIO) -> Iterator[None]:
    """Write inside; if the reader has gone, what is still in the file's buffer goes nowhere.

    Raises:
        OutputClosedError: it has gone.
    """
    try:
        yield
    except BrokenPipeError:
        silence(file)
        raise OutputClosedError("what is printed is read by nobody any more: the pipe is closed.") from None


def silence(file: TextIO) -> None:
    """Let what is written to a file go nowhere, so that its last flush, when the program ends, does not fail."""
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(descriptor, file.fileno())
        finally:
            os.close(descriptor)
