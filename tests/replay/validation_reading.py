"""A validation read back from `validation.json`."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.model.errors import BugError, UserError
from penstock.replay.grades import AggregateGrade, GradedRow, QueryGrade
from penstock.replay.validation_json import VERSION
from penstock.replay.validation_result import (
    CorrectionResult,
    DifferenceKind,
    Example,
    QueryValidation,
    SourceRange,
    Validation,
    WindowResult,
)

_ROWS = ("rows_exact", "rows_stream", "missing", "extra", "different")
_SHED = ("estimated", "vanished", "emerged")
_ESTIMATE = ("intervals", "intervals_covered", "mean_error")


def from_json(text: str | bytes, where: str) -> Validation:
    """Return the validation that a file holds; ``where`` names the file in errors.

    Raises:
        UserError: it is none, or of a later version.
    """
    try:
        data: Mapping[str, Any] = json.loads(text)
        if data["version"] != VERSION:
            raise UserError(
                f"{where} is of version {data['version']}, but this Penstock reads {VERSION}: use a newer one"
            )
        return Validation(
            job=data["job"],
            created=datetime.fromisoformat(data["created"]),
            penstock=data["penstock"],
            spark=data["spark"],
            sources=tuple(_source(item) for item in data["sources"]),
            queries=tuple(_query(item) for item in data["queries"]),
            kept=(data.get("kept") or {}).get("log"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, BugError) as error:
        raise UserError(f"{where} holds no validation ({type(error).__name__}: {error})") from None


def _source(data: Mapping[str, Any]) -> SourceRange:
    start, stop = _offsets(data["from"]), _offsets(data["to"])
    return SourceRange(data["source"], data["topic"], start, stop, data["rows"], data.get("offsets_left_out"))


def _offsets(data: Mapping[str, int] | None) -> dict[int, int] | None:
    return None if data is None else {int(partition): offset for partition, offset in data.items()}


def _query(data: Mapping[str, Any]) -> QueryValidation:
    return QueryValidation(
        query=data["query"],
        mode=data["mode"],
        keys=tuple(data["keys"]),
        why=data["why"],
        windows=tuple(_window(item) for item in data["windows"]),
        windows_left_out=data["windows_left_out"],
        examples=tuple(
            Example(DifferenceKind(item["status"]), item["key"], item["stream"], item["exact"])
            for item in data["examples"]
        ),
        open=data.get("open", 0),
        notes=tuple(data.get("notes", ())),
        correction=CorrectionResult(**data["correction"]) if data.get("correction") else None,
        queued=data.get("queued"),
        grade=None if data["grade"] is None else _grade(data["grade"]),
        **_rows_and_accuracy(data),
    )


def _grade(data: Mapping[str, Any]) -> QueryGrade:
    return QueryGrade(
        aggregates=tuple(
            AggregateGrade(**{name: value for name, value in item.items() if name != "coverage"})
            for item in data["aggregates"]
        ),
        drawn=tuple(
            GradedRow(**{**item, "window_start": _time(item["window_start"]), "window_end": _time(item["window_end"])})
            for item in data["drawn"]
        ),
        counted=data["counted"],
        files=data["files"],
    )


def _window(data: Mapping[str, Any]) -> WindowResult:
    return WindowResult(
        window_start=_time(data["window_start"]),
        window_end=_time(data["window_end"]),
        **_rows_and_accuracy(data),
        **{name: data[name] for name in _ESTIMATE},
    )


def _rows_and_accuracy(data: Mapping[str, Any]) -> dict[str, Any]:
    names = (*_ROWS, *_SHED, "rows_expected", "rows_used", "promised_accuracy", "biased")
    return {name: data[name] for name in names}


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
