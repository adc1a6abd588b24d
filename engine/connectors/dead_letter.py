"""Where records go that could not be read or processed: JSON lines in the job's directory, or an output of the user's.

Implements the operators' `DeadLetters` contract (engine.md section 10); made by the executor, one for a whole job.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from penstock.engine.connectors.row_text import encode_lines, encode_rows
from penstock.model.config import check_on_error
from penstock.model.connectors import RawRecord, Writer
from penstock.model.errors import BadRecordError
from penstock.model.job_graph import JobGraph

FILE_NAME = "dead_letters.jsonl"

SCHEMA = pa.schema(
    [
        pa.field("operator", pa.string(), nullable=False),
        pa.field("position", pa.string(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
        pa.field("traceback", pa.string()),
        pa.field("text", pa.string()),
        pa.field("raw_base64", pa.string(), nullable=False),
    ]
)
"""A dead letter: ``text`` is the record if it is UTF-8, ``raw_base64`` its bytes; a row is kept as a JSON object."""

_TRACEBACK = "Traceback (most recent call last):"
_SHOWN = 200


class DeadLetterWriter:
    """Follows each operator's policy: ``fail`` raises, ``dead_letter`` writes, ``skip`` counts only.

    All are counted in `counts`. The file is made with the first letter and is complete after every call.
    """

    def __init__(
        self,
        directory: Path,
        policies: Mapping[str, str] | None = None,
        *,
        default: str = "dead_letter",
        outputs: Mapping[str, Writer] | None = None,
    ) -> None:
        """``policies`` and ``outputs`` are by operator name; an output receives rows of `SCHEMA` in place of the file.

        Raises:
            OptionError: there is no such policy.
        """
        self._path = directory / FILE_NAME
        self._policies = {name: check_on_error(policy, name) for name, policy in (policies or {}).items()}
        self._default = check_on_error(default, "the job")
        self._outputs = dict(outputs or {})
        self._file: BinaryIO | None = None
        self.counts: dict[str, int] = {}
        """Records rejected so far, by operator."""

    @classmethod
    def for_graph(cls, graph: JobGraph, directory: Path) -> "DeadLetterWriter":
        """Take the policies from the operators' specs."""
        specs = {node.name: getattr(node.spec, "on_error", None) for node in graph.operators.values()}
        return cls(directory, {name: policy for name, policy in specs.items() if policy is not None})

    @property
    def path(self) -> Path:
        """The file of dead letters; it exists once there is one."""
        return self._path

    def reject(self, operator: str, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        """Take rows an operator could not process, one error text (or traceback) per row.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """
        if rows.num_rows and self._wanted(operator, rows.num_rows, lambda: _first_row(rows, errors)):
            positions = [""] * rows.num_rows
            self._write(operator, encode_rows(rows), positions, errors)

    def reject_raw(self, operator: str, records: Sequence[RawRecord]) -> None:
        """Take records a source could not decode.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """
        if records and self._wanted(operator, len(records), lambda: records[0]):
            raws = [record.raw for record in records]
            self._write(operator, raws, [r.position for r in records], [r.error for r in records])

    def close(self) -> None:
        """Close the file and the outputs."""
        if self._file is not None:
            self._file.close()
            self._file = None
        for output in self._outputs.values():
            output.close()
        self._outputs = {}

    def _wanted(self, operator: str, records: int, first: Callable[[], RawRecord]) -> bool:
        """Count records and return whether they are to be written."""
        self.counts[operator] = self.counts.get(operator, 0) + records
        policy = self._policies.get(operator, self._default)
        if policy == "fail":
            raise BadRecordError(_sentence(operator, first()))
        return policy == "dead_letter"

    def _write(self, operator: str, raws: Sequence[bytes], positions: Sequence[str], errors: Sequence[str]) -> None:
        letters = _letters(operator, raws, positions, errors)
        output = self._outputs.get(operator)
        if output is not None:
            output.write(letters)
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
        self._file.write(encode_lines(letters))
        self._file.flush()


def _letters(operator: str, raws: Sequence[bytes], positions: Sequence[str], errors: Sequence[str]) -> pa.RecordBatch:
    split = [_split_error(error) for error in errors]
    columns = [
        [operator] * len(raws),
        list(positions),
        [error for error, _ in split],
        [trace for _, trace in split],
        [_decoded(raw) for raw in raws],
        [base64.b64encode(raw).decode() for raw in raws],
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _split_error(error: str) -> tuple[str, str | None]:
    """Return the message and, if the text is a traceback, all of it; valid UTF-8 whatever the user's code raised."""
    text = error.encode("utf-8", "backslashreplace").decode()
    if not text.startswith(_TRACEBACK):
        return text, None
    lines = text.rstrip().splitlines()
    last = next((at for at in range(len(lines) - 1, 0, -1) if not lines[at].startswith((" ", "\t"))), len(lines) - 1)
    return "\n".join(lines[last:]), text


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
    error, _ = _split_error(record.error)
    return (
        f"{operator!r} met a bad record{where}: {error}; the record is {shown}; "
        "correct the input, or choose on_error='dead_letter' or 'skip'"
    )
