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
    titles = ("letter", "written", "from", "stage", "operator", "error", "key", "value")
    columns = [Column(title, figures=False) for title in titles]
    number = f"{len(letters):,} dead letter{'' if len(letters) == 1 else 's'} of {topic}"
    print_table(columns, [_cells(letter) for letter in letters], note=number, stream=sys.stdout)


def letter_data(letter: StoredLetter) -> dict[str, Any]:
    """Return a letter as JSON-able data; bytes as text if they are UTF-8, and always as base64."""
    provenance = letter.provenance
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
            "class": provenance.error_class,
            "message": provenance.message,
            "stage": provenance.stage,
            "operator": provenance.operator,
            "topic": provenance.topic or None,
            "partition": provenance.partition,
            "offset": provenance.offset,
            "timestamp": _iso(provenance.timestamp_ms),
            "job": provenance.job,
            "epoch": provenance.epoch,
            "attempt": provenance.attempt,
            "traceback": provenance.traceback or None,
        },
    }


def _cells(letter: StoredLetter) -> list[str]:
    provenance = letter.provenance
    origin = f"{provenance.topic}/{provenance.partition}@{provenance.offset}" if provenance.topic else ""
    message = provenance.message.removeprefix(f"{provenance.error_class}: ")
    error = message if provenance.error_class in ("", "BadRecordError") else f"{provenance.error_class}: {message}"
    return [
        f"{letter.partition}@{letter.offset}",
        (_iso(letter.written_ms) or "")[:19].replace("T", " "),
        origin,
        provenance.stage,
        provenance.operator,
        _short(error),
        _content_text(letter.key),
        _content_text(letter.value),
    ]


def _content_text(content: bytes | None) -> str:
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
