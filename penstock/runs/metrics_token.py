"""The tokens of a job's HTTP API, by a reference: ``env:NAME`` or ``file:PATH``. They are never shown."""

import os
import stat
from pathlib import Path

from penstock.model.errors import OptionError

LEAST_CHARACTERS = 16
"""A shorter token could be guessed."""

MAKE_ONE = "python3 -c 'import secrets; print(secrets.token_urlsafe())'"


def check_reference(reference: str, option: str = "metrics_token") -> None:
    """Check that an option refers to a token.

    Raises:
        OptionError: it is no reference; the message does not repeat it, for it may be the token itself.
    """
    kind, _, where = reference.partition(":") if isinstance(reference, str) else ("", "", "")
    if kind not in ("env", "file") or not where:
        raise OptionError(f"{option} says where the token is, never the token itself: 'file:PATH' or 'env:NAME'.")


def read_token(reference: str, option: str = "metrics_token") -> str:
    """Follow a reference and return the token.

    Raises:
        OptionError: there is none, others than the owner may read its file, or it is too short or no plain ASCII.
    """
    check_reference(reference, option)
    kind, _, where = reference.partition(":")
    token = _from_environment(where, option) if kind == "env" else _from_file(Path(where), option)
    if len(token) < LEAST_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise OptionError(
            f"the token of {option}={reference!r} must be {LEAST_CHARACTERS} or more characters of ASCII without "
            f"blanks; make one by {MAKE_ONE}"
        )
    return token


def _from_environment(name: str, option: str) -> str:
    token = os.environ.get(name)
    if token is None:
        raise OptionError(f"{option} is to come from the environment variable {name}, which is not set.")
    return token.strip()


def _from_file(path: Path, option: str) -> str:
    try:
        with path.open(encoding="ascii") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & 0o077:
                raise OptionError(
                    f"{option} is to come from {str(path)!r}, which others than its owner may use (mode "
                    f"{mode:04o}): chmod 600 {path}"
                )
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{option} is to come from {str(path)!r}, which cannot be read: {error}") from None
