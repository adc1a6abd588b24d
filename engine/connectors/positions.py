"""Positions that come back from a checkpoint, checked against what the source understands. Called by the sources."""

from typing import Any, TypeVar

import msgspec

from penstock.model.connectors import Source
from penstock.model.errors import UserError

Position = TypeVar("Position")


def read_position(source: Source, position: Any, kind: type[Position]) -> Position:
    """Return a position as the type that the source's readers know.

    Raises:
        UserError: another kind of source made it.
    """
    try:
        return msgspec.convert(position, kind)
    except msgspec.ValidationError as error:
        raise UserError(
            f"the checkpoint holds no position of the source {source.describe()!r} ({error}): "
            "restore it with the source it was taken with, or start the job anew"
        ) from None
