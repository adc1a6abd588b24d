"""The output of records that could not be read or processed: JSON lines in the job's directory, or routes.

Implements the operators' `DeadLetters` contract; made by the executor, one for a whole job. An
operator whose dead letters are read as a stream has a `DeadLetterOutput` in between.
"""

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

import pyarrow as pa

from penstock.engine.connectors.letter_routes import LetterRoutes, split_error
from penstock.engine.connectors.text.row_text import encode_lines, encode_rows
from penstock.model.config import check_on_error
from penstock.model.connectors import RawRecord
from penstock.model.dead_letters import DEAD_LETTER, LETTER_FIELDS
from penstock.model.errors import BadRecordError, PenstockError
from penstock.model.job_graph import JobGraph
from penstock.model.result_columns import is_hidden
from penstock.model.sampling import STEP
from penstock.model.source_location import innermost_user_line
from penstock.state.files.private_files import append_private, make_private_folder

FILE_NAME = "dead_letters.jsonl"

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class FirstBadRecord:
    """The first bad record of an operator, as far as is known where it was met.

    ``line`` is the line of the user's code that it came from, ``position`` where a source met it; both may be empty.
    ``place`` is where its letters are kept, None if they are not; ``handled``: a stream reads them.
    """

    operator: str
    error: str
    line: str
    position: str
    place: str | None
    handled: bool


OnBadRecord = Callable[[FirstBadRecord], None]


@runtime_checkable
class Rejecting(Protocol):
    """The spec of an operator whose user says what becomes of its bad records."""

    @property
    def on_error(self) -> str:
        """Return the policy."""


class DeadLetterWriter:
    """Follows each operator's policy: ``fail`` raises, ``dead_letter`` writes, ``skip`` counts only.

    All are counted in `counts`. The file is made with the first letter and is complete after every call. Letters that
    have a route take it instead, whether or not something reads them as a stream.
    """

    def __init__(
        self,
        directory: Path,
        policies: Mapping[str, str] | None = None,
        *,
        default: str = "dead_letter",
        routes: LetterRoutes | None = None,
        lines: Mapping[str, str] | None = None,
        read: Collection[str] = (),
        on_first: OnBadRecord | None = None,
    ) -> None:
        """``policies`` are by operator name. ``lines``: where the user wrote each operator. ``read``: those whose
        dead letters are read as a stream. ``on_first`` takes the first bad record of each operator.

        Raises:
            OptionError: there is no such policy.
        """
        self.path = directory / FILE_NAME
        """The file of dead letters; it exists once there is one."""
        self._policies = {name: check_on_error(policy, name) for name, policy in (policies or {}).items()}
        self._default = check_on_error(default, "the job")
        self._file: BinaryIO | None = None
        self._routes = routes
        self._lines = dict(lines or {})
        self._read = frozenset(read)
        self.counts: dict[str, int] = {}
        """Records rejected so far, by operator."""
        self._on_first = on_first

    @classmethod
    def for_graph(
        cls,
        graph: JobGraph,
        directory: Path,
        routes: LetterRoutes | None = None,
        on_first: OnBadRecord | None = None,
    ) -> "DeadLetterWriter":
        """Take the policies from the operators' specs."""
        nodes = graph.operators.values()
        policies = {node.name: node.spec.on_error for node in nodes if isinstance(node.spec, Rejecting)}
        lines = {node.name: node.where for node in graph.operators.values()}
        read = [node.name for node in graph.operators.values() if graph.is_read(node.id, DEAD_LETTER)]
        return cls(directory, policies, routes=routes, lines=lines, read=read, on_first=on_first)

    @property
    def failure(self) -> PenstockError | None:
        """The error because of which routes cannot take letters: the job, or this attempt, must end."""
        return None if self._routes is None else self._routes.failure

    def reject(self, operator: str, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        """Take rows an operator could not process, one error text (or traceback) per row.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """
        self._write(operator, self.letters(operator, rows, errors))

    def reject_raw(self, operator: str, records: Sequence[RawRecord]) -> None:
        """Take records a source could not decode.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """
        self._write(operator, self.raw_letters(operator, records))

    def letters(self, operator: str, rows: pa.RecordBatch, errors: Sequence[str]) -> pa.RecordBatch | None:
        """Count rows as `reject` does, and return their letters instead of writing them; None if none are wanted.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """
        if not rows.num_rows or not self._wanted(operator, rows.num_rows, lambda: _first_row(rows, errors)):
            return None
        records = [RawRecord(raw, "", error) for raw, error in zip(_encoded(rows), errors, strict=True)]
        return self._sent(operator, records)

    def raw_letters(self, operator: str, records: Sequence[RawRecord]) -> pa.RecordBatch | None:
        """Count records as `reject_raw` does, and return their letters; None if none are wanted.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """
        if not records or not self._wanted(operator, len(records), lambda: records[0]):
            return None
        return self._sent(operator, records)

    def flush(self) -> None:
        """Return when letters that have a route are safe; from any thread.

        Raises:
            PenstockError: one is not.
        """
        if self._routes is not None:
            self._routes.flush()

    def close(self) -> None:
        """Close the file, and flush what has a route.

        Raises:
            PenstockError: a letter was not written.
        """
        self._close_file()
        if self._routes is not None:
            self._routes.close()

    def abort(self) -> None:
        """The job failed: close the file, and do for the others what can be done soon."""
        self._close_file()
        if self._routes is not None:
            self._routes.abort()

    def _sent(self, operator: str, records: Sequence[RawRecord]) -> pa.RecordBatch:
        if self._routes is not None:
            self._routes.send(operator, records)
        return _letters(operator, records)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _wanted(self, operator: str, records: int, first: Callable[[], RawRecord]) -> bool:
        """Count records and return whether their letters are to be kept."""
        before = self.counts.get(operator, 0)
        self.counts[operator] = before + records
        policy = self._policies.get(operator, self._default)
        if policy == "fail":
            record = first()
            raise BadRecordError(_sentence(operator, record, self._line(operator, record)))
        if not before and self._on_first is not None:
            record = first()
            error, _ = split_error(record.error)
            place = self._place(operator) if policy == "dead_letter" else None
            line = self._line(operator, record)
            self._on_first(FirstBadRecord(operator, error, line, record.position, place, operator in self._read))
        return policy == "dead_letter"

    def _line(self, operator: str, record: RawRecord) -> str:
        """Return the user's line that raised, that of the operator if none did."""
        return innermost_user_line(record.error) or self._lines.get(operator, "")

    def _place(self, operator: str) -> str:
        """Return where an operator's letters are kept."""
        if operator in self._read:
            return f"its output {DEAD_LETTER!r}"
        place = None if self._routes is None else self._routes.place(operator)
        return str(self.path) if place is None else place

    def _write(self, operator: str, letters: pa.RecordBatch | None) -> None:
        if letters is None or (self._routes is not None and self._routes.leads(operator)):
            return
        if self._file is None:
            # Letters hold what the user's records hold.
            make_private_folder(self.path.parent)
            self._file = append_private(self.path)
        self._file.write(encode_lines(letters))
        self._file.flush()


def _letters(operator: str, records: Sequence[RawRecord]) -> pa.RecordBatch:
    split = [split_error(record.error) for record in records]
    columns = [
        [operator] * len(records),
        [record.position for record in records],
        [error for error, _ in split],
        [trace for _, trace in split],
        [_decoded(record.raw) for record in records],
        [base64.b64encode(record.raw).decode() for record in records],
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, LETTER_FIELDS, strict=True)],
        schema=LETTER_FIELDS,
    )


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _encoded(rows: pa.RecordBatch) -> list[bytes]:
    """Return rows as users know them, as JSON text."""
    names = rows.schema.names
    shown = [name for name in names if name != STEP.name and not is_hidden(name)]
    return encode_rows(rows if shown == names else rows.select(shown))


def _first_row(rows: pa.RecordBatch, errors: Sequence[str]) -> RawRecord:
    return RawRecord(_encoded(rows.slice(0, 1))[0], "", errors[0])


def _sentence(operator: str, record: RawRecord, line: str) -> str:
    where = f" at {record.position}" if record.position else ""
    raised = f"at {line}; " if line else ""
    text = record.raw[:_SHOWN].decode("utf-8", "backslashreplace")
    shown = text if len(record.raw) <= _SHOWN else f"{text}..."
    error, _ = split_error(record.error)
    return (
        f"{operator!r} met a bad record{where}: {error}; the record is {shown}; "
        f"{raised}correct the input, or choose on_error='dead_letter' or 'skip'"
    )
