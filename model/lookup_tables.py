"""The contract of side tables that rows are looked up in."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa


class LookupTable(ABC):
    """A side table that `Stream.lookup` reads as a whole, again every ``refresh_us`` microseconds (None: once)."""

    refresh_us: int | None = None

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The table's columns."""

    @abstractmethod
    def load(self) -> pa.Table:
        """Read the table as it is now. May block: after the first time it is called on a thread of its own.

        Raises:
            PenstockError: it cannot be read; the job goes on with the table it has and counts the failure.
        """

    def local_files(self) -> Sequence[Path]:
        """Return the files that `load` opens, wherever it is called; the default opens none."""
        return ()

    def describe(self) -> str:
        """Say what is read, in a few words, for plans."""
        return type(self).__name__
