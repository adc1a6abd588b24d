"""Output whose reader has gone, as in ``python pipeline.py | head``."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from penstock.model.errors import OutputClosedError


@contextmanager
def output_closed_as_error(file: TextIO) -> Iterator[None]:
    """Run the body, which writes to a file; if its reader has gone, discard the file's buffer.

    Raises:
        OutputClosedError: the reader has gone.
    """
    try:
        yield
    except BrokenPipeError:
        discard_output(file)
        raise OutputClosedError("what is printed is read by nobody any more: the pipe is closed.") from None


def discard_output(file: TextIO) -> None:
    """Discard all output to a file, so that its last flush at the end of the program does not fail."""
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(descriptor, file.fileno())
        finally:
            os.close(descriptor)
