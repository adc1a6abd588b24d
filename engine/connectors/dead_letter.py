"""Where records go that could not be read or processed: JSON lines in the job's directory, or where routes lead.

Implements the operators' `DeadLetters` contract (engine.md section 10); made by the executor, one for a whole job. An
operator whose dead letters are read as a stream has a `DeadLetterOutput` in between.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from penstock.engine.connectors.letter_routes import LetterRoutes, split_error
from penstock.engine.connectors.row_text import encode_lines, encode_rows
from penstock.model.config import check_on_error
from penstock.model.connectors import RawRecord
from penstock.model.dead_letters import LETTER_FIELDS
from penstock.model.errors import BadRecordError, PenstockError
from penstock.model.job_graph import JobGraph

FILE_NAME = "dead_letters.jsonl"

_SHOWN = 200


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
    ) -> None:
        """``policies`` are by operator name.

        Raises:
            OptionError: there is no such policy.
        """
        self._path = directory / FILE_NAME
        self._policies = {name: check_on_error(policy, name) for name, policy in (policies or {}).items()}
        self._default = check_on_error(default, "the job")
        self._file: BinaryIO | None = None
        self._routes = routes
        self.counts: dict[str, int] = {}
        """Records rejected so far, by operator."""

    @classmethod
    def for_graph(cls, graph: JobGraph, directory: Path, routes: LetterRoutes | None = None) -> "DeadLetterWriter":
        """Take the policies from the operators' specs."""
        specs = {node.name: getattr(node.spec, "on_error", None) for node in graph.operators.values()}
        policies = {name: policy for name, policy in specs.items() if policy is not None}
        return cls(directory, policies, routes=routes)

    @property
    def path(self) -> Path:
        """The file of dead letters; it exists once there is one."""
        return self._path

    @property
    def failure(self) -> PenstockError | None:
        """Why letters cannot be written where their routes lead: the job, or this attempt, must end."""
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
        raws = encode_rows(rows)
        if self._routes is not None:
            self._routes.send(operator, [RawRecord(raw, "", error) for raw, error in zip(raws, errors, strict=True)])
        return _letters(operator, raws, [""] * rows.num_rows, errors)

    def raw_letters(self, operator: str, records: Sequence[RawRecord]) -> pa.RecordBatch | None:
        """Count records as `reject_raw` does, and return their letters; None if none are wanted.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """
        if not records or not self._wanted(operator, len(records), lambda: records[0]):
            return None
        if self._routes is not None:
            self._routes.send(operator, records)
        raws = [record.raw for record in records]
        return _letters(operator, raws, [r.position for r in records], [r.error for r in records])

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

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _wanted(self, operator: str, records: int, first: Callable[[], RawRecord]) -> bool:
        """Count records and return whether their letters are to be kept."""
        self.counts[operator] = self.counts.get(operator, 0) + records
        policy = self._policies.get(operator, self._default)
        if policy == "fail":
            raise BadRecordError(_sentence(operator, first()))
        return policy == "dead_letter"

    def _write(self, operator: str, letters: pa.RecordBatch | None) -> None:
        if letters is None or (self._routes is not None and self._routes.leads(operator)):
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
        self._file.write(encode_lines(letters))
        self._file.flush()


def _letters(operator: str, raws: Sequence[bytes], positions: Sequence[str], errors: Sequence[str]) -> pa.RecordBatch:
    split = [split_error(error) for error in errors]
    columns = [
        [operator] * len(raws),
        list(positions),
        [error for error, _ in split],
        [trace for _, trace in split],
        [_decoded(raw) for raw in raws],
        [base64.b64encode(raw).decode() for raw in raws],
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


def _first_row(rows: pa.RecordBatch, errors: Sequence[str]) -> RawRecord:
    return RawRecord(encode_rows(rows.slice(0, 1))[0], "", errors[0])


def _sentence(operator: str, record: RawRecord) -> str:
    where = f" at {record.position}" if record.position else ""
    text = record.raw[:_SHOWN].decode("utf-8", "backslashreplace")
    shown = text if len(record.raw) <= _SHOWN else f"{text}..."
    error, _ = split_error(record.error)
    return (
        f"{operator!r} met a bad record{where}: {error}; the record is {shown}; "
        "correct the input, or choose on_error='dead_letter' or 'skip'"
    )
