"""The token for actions that a job makes itself: its own user's commands find it on the job's machine, nobody else's.

It lies in a file that only the user may read, named by machine and port, as long as the job serves its HTTP API.
"""

import os
import platform
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from penstock.model.errors import OptionError
from penstock.runs.metrics_token import read_token


def token_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the user's running jobs: below ``XDG_STATE_HOME``, or that of the home directory.

    Raises:
        OSError: the user has no home directory.
    """
    state = environment.get("XDG_STATE_HOME")
    try:
        root = Path(state) if state else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise OSError(str(error)) from None
    return root / "penstock" / "tokens"


class OwnToken:
    """A new token. Nobody finds it until it is published."""

    def __init__(self, folder: Path, draft: Path, value: str) -> None:
        """Take a token that stands in the file ``draft``."""
        self.value = value
        self._folder, self._file = folder, draft

    @classmethod
    def make(cls, folder: Path | None = None) -> Self:
        """Make one.

        Raises:
            OSError: it cannot be kept; the message says where.
        """
        folder = folder or token_folder(os.environ)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        value = secrets.token_urlsafe(32)
        # Only its owner may read it, from its first moment on.
        descriptor, draft = tempfile.mkstemp(prefix=".", dir=folder)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(value)
        return cls(folder, Path(draft), value)

    def publish(self, port: int) -> None:
        """Let the user's commands on this machine find it by the port; one of a job that was killed is replaced."""
        file = self._folder / _name(port)
        self._file.replace(file)
        self._file = file

    def delete(self) -> None:
        """Delete it, if it was not replaced meanwhile. To be called while the port is still the job's."""
        with suppress(OSError):
            if self._file.read_text(encoding="ascii") == self.value:
                self._file.unlink()


def own_token(port: int, folder: Path | None = None) -> str | None:
    """Return the token that a job of this user has made which serves this port of this machine; None: none has."""
    try:
        return read_token(f"file:{(folder or token_folder(os.environ)) / _name(port)}")
    except (OSError, OptionError):
        return None


def _name(port: int) -> str:
    # A home directory may be that of many machines.
    return f"{platform.node()}-{port}"
