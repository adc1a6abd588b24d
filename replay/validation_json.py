"""`validation.json`: a validation as text; `validate` writes it, docs/reference/validation.md tells users.

Names and order are those of `validation_result`, with ``version``, ``status``, ``same`` and ``true_accuracy`` besides,
and ``from`` and ``to`` for `SourceRange.start` and `SourceRange.stop`. A version may get more fields; none goes, and
what older files lack is None, 0 or empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from penstock.replay.grades import QueryGrade
from penstock.replay.validation_result import (
    Accuracy,
    QueryValidation,
    SourceRange,
    Validation,
    WindowResult,
)

VERSION = 1

_ROWS = ("rows_exact", "rows_stream", "missing", "extra", "different")
_ACCURACY = ("rows_expected", "rows_used", "promised_accuracy", "true_accuracy", "biased")
_SHED = ("estimated", "vanished", "emerged")


def to_json(validation: Validation) -> str:
    """Return the file's text."""
    data = {
        "version": VERSION,
        "job": validation.job,
        "created": validation.created.isoformat(),
        "penstock": validation.penstock,
        "spark": validation.spark,
        "status": validation.status,
        "kept": None if validation.kept is None else {"log": validation.kept, "offsets_left_out": validation.left_out},
        "sources": [_source_data(source) for source in validation.sources],
        "queries": [_query_data(query) for query in validation.queries],
    }
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False)


def _source_data(source: SourceRange) -> dict[str, Any]:
    return {
        "source": source.source,
        "topic": source.topic,
        "from": _offsets_data(source.start),
        "to": _offsets_data(source.stop),
        "rows": source.rows,
        "offsets_left_out": source.left_out,
    }


def _offsets_data(offsets: Mapping[int, int] | None) -> dict[str, int] | None:
    return None if offsets is None else {str(partition): offsets[partition] for partition in sorted(offsets)}


def _query_data(query: QueryValidation) -> dict[str, Any]:
    rows = {name: getattr(query, name) for name in _ROWS}
    return {
        "query": query.query,
        "mode": query.mode,
        "keys": list(query.keys),
        "status": query.status,
        "why": query.why,
        "rows_exact": rows.pop("rows_exact"),
        "rows_stream": rows.pop("rows_stream"),
        "same": query.same,
        **rows,
        **{name: getattr(query, name) for name in _SHED},
        **_accuracy_data(query),
        "queued": query.queued,
        "grade": None if query.grade is None else _grade_data(query.grade),
        "windows": [_window_data(window) for window in query.windows],
        "windows_left_out": query.windows_left_out,
        "examples": [asdict(example) for example in query.examples],
        "open": query.open,
        "notes": list(query.notes),
        "correction": None if query.correction is None else asdict(query.correction),
    }


def _window_data(window: WindowResult) -> dict[str, Any]:
    accuracy = _accuracy_data(window)
    biased = accuracy.pop("biased")
    return {
        "window_start": _time_data(window.window_start),
        "window_end": _time_data(window.window_end),
        **{name: getattr(window, name) for name in (*_ROWS, *_SHED)},
        **accuracy,
        **{name: getattr(window, name) for name in ("intervals", "intervals_covered", "mean_error")},
        "biased": biased,
    }


def _grade_data(grade: QueryGrade) -> dict[str, Any]:
    return {
        "counted": grade.counted,
        "files": grade.files,
        "aggregates": [{**asdict(item), "coverage": item.coverage} for item in grade.aggregates],
        "drawn": [
            {**asdict(row), "window_start": _time_data(row.window_start), "window_end": _time_data(row.window_end)}
            for row in grade.drawn
        ],
    }


def _accuracy_data(accuracy: Accuracy) -> dict[str, Any]:
    return {name: getattr(accuracy, name) for name in _ACCURACY}


def _time_data(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
