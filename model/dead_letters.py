"""Dead letters: their output of an operator, their columns, and the contract of other targets."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.model.connectors import RawRecord

DEAD_LETTER = "dead_letter"
"""The output of records that could not be read or processed; sinks and unions have none."""

LETTER_FIELDS = pa.schema(
    [
        pa.field("operator", pa.string(), nullable=False),
        pa.field("position", pa.string(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
        pa.field("traceback", pa.string()),
        pa.field("text", pa.string()),
        pa.field("raw_base64", pa.string(), nullable=False),
    ]
)
"""A dead letter: ``text`` is the record if it is UTF-8, ``raw_base64`` its bytes; a row is kept as a JSON object.

``position`` is where a source found the record, for example ``file:line``; empty for rows of other operators.
"""

DECODE, UDF, SINK = "decode", "udf", "sink"
"""The stages at which a record is rejected: in a source, in an operator, in a sink."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A rejected record, its error, and where the error occurred.

    Rows that an operator rejects have the JSON of the row as their ``record.raw``. ``error_class`` is the exception's
    name, ``traceback`` None if the error was none of a user's code; ``epoch`` is the checkpoint that was begun last
    before it, 0 if there was none.
    """

    record: RawRecord
    operator: str
    stage: str
    error_class: str
    message: str
    traceback: str | None
    job: str
    epoch: int
    attempt: int


class LetterWriter(ABC):
    """Writes the dead letters of one run. `flush` may be called from another thread than the others."""

    @abstractmethod
    def put(self, letters: Sequence[DeadLetter]) -> None:
        """Take letters, in order; what goes wrong with them may be raised later.

        Raises:
            PenstockError: these, or earlier ones, cannot be written.
        """

    @abstractmethod
    def flush(self) -> None:
        """Return when all that was taken is safe.

        Raises:
            PenstockError: something cannot be written.
        """

    @abstractmethod
    def close(self) -> None:
        """Flush and end."""

    @abstractmethod
    def abort(self) -> None:
        """The job failed: end soon, with as much written as is possible by then."""


class LetterTarget(ABC):
    """A target for the dead letters of a source, or of a whole job, other than the job's directory."""

    @abstractmethod
    def open(self, job: str) -> LetterWriter:
        """Make ready to write.

        Raises:
            UserError: letters cannot be written there.
            RetryableError: not now.
        """

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words where that is."""
