"""References to secrets: ``env:NAME`` or ``file:PATH`` in settings, followed when a client is made."""

import os
from pathlib import Path
from typing import Any

from penstock.model.errors import OptionError, UserError


def is_reference(value: Any) -> bool:
    """Return whether a setting's value says where it is."""
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def check_reference(option: str, key: str, value: Any) -> None:
    """Raise `OptionError` if a secret among the settings ``option`` stands in the open."""
    if not is_reference(value):
        raise OptionError(
            f"{option} holds the secret {key!r} itself; say where it is instead: 'env:NAME' or 'file:PATH'"
        )


def referenced(setting: str, value: Any) -> Any:
    """Return what a reference stands for; another value is returned as it is. ``setting`` is for errors.

    Raises:
        UserError: it is not where it should be.
    """
    if not is_reference(value):
        return value
    kind, _, where = value.partition(":")
    try:
        return os.environ[where] if kind == "env" else Path(where).read_text(encoding="utf-8").rstrip("\r\n")
    except KeyError:
        raise UserError(
            f"{setting} is to come from the environment variable {where}, which cannot be read: set it"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{setting} is to come from {where!r}, which cannot be read: {error}") from None
