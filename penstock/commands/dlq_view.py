"""Dead letters of a Kafka topic as a table, or as JSON lines. Called by ``penstock dlq show``."""

import base64
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from penstock.engine.connectors.kafka.letter_reading import StoredLetter
from penstock.tables import Column, print_table

_WIDEST = 48


def print_letters(letters: Sequence[StoredLetter], topic: str, *, as_json: bool = False) -> None:
    """Print letters to stdout, oldest first."""
    if as_json:
        for letter in letters:
            print(json.dumps(letter_data(letter)))
        return
    columns = [
        Column("letter", figures=False),
        Column("written", figures=False),
        Column("from", figures=False),
        Column("stage", figures=False),
        Column("operator", figures=False),
        Column("error", figures=False),
        Column("key", figures=False),
        Column("value", figures=False),
    ]
    number = f"{len(letters):,} dead letter{'' if len(letters) == 1 else 's'} of {topic}"
    print_table(columns, [_cells(letter) for letter in letters], note=number, stream=sys.stdout)


def letter_data(letter: StoredLetter) -> dict[str, Any]:
    """Return a letter as JSON-able data; bytes as text if they are UTF-8, and always as base64."""
    told = letter.provenance
    return {
        "partition": letter.partition,
        "offset": letter.offset,
        "written": _iso(letter.written_ms),
        "key": _text(letter.key),
        "key_base64": _base64(letter.key),
        "value": _text(letter.value),
        "value_base64": _base64(letter.value),
        "headers": [{"name": name, "value_base64": _base64(value)} for name, value in letter.headers],
        "error": {
            "class": told.error_class,
            "message": told.message,
            "stage": told.stage,
            "operator": told.operator,
            "topic": told.topic or None,
            "partition": told.partition,
            "offset": told.offset,
            "timestamp": _iso(told.timestamp_ms),
            "job": told.job,
            "epoch": told.epoch,
            "attempt": told.attempt,
            "traceback": told.traceback or None,
        },
    }


def _cells(letter: StoredLetter) -> list[str]:
    told = letter.provenance
    origin = f"{told.topic}/{told.partition}@{told.offset}" if told.topic else ""
    message = told.message.removeprefix(f"{told.error_class}: ")
    error = message if told.error_class in ("", "BadRecordError") else f"{told.error_class}: {message}"
    return [
        f"{letter.partition}@{letter.offset}",
        (_iso(letter.written_ms) or "")[:19].replace("T", " "),
        origin,
        told.stage,
        told.operator,
        _short(error),
        _shown(letter.key),
        _shown(letter.value),
    ]


def _shown(content: bytes | None) -> str:
    if content is None:
        return "null"
    text = _text(content[: 4 * _WIDEST])
    return _short(text if text is not None else repr(content[:_WIDEST])[2:-1])


def _short(text: str) -> str:
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    return plain if len(plain) <= _WIDEST else f"{plain[: _WIDEST - 1]}…"


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _iso(time_ms: int | None) -> str | None:
    """Return a time, or the number if it is outside of the calendar."""
    if time_ms is None:
        return None
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
