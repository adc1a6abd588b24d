"""A validation as one HTML file that needs nothing else, no script and no network. `validate` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.replay.report_bins import timeline
from penstock.replay.report_page import overview, reading, replayed, top
from penstock.replay.report_query import section
from penstock.replay.report_style import STYLE
from penstock.replay.report_text import safe
from penstock.replay.validation_result import Validation

MOST_BYTES = 300_000
"""A page is made smaller until it fits, so that it opens at once and can be mailed."""


@dataclass(frozen=True, slots=True)
class _Room:
    """The room of each query on the page."""

    bars: int
    windows: int
    examples: int


_LEAST = _Room(bars=12, windows=5, examples=2)


def write_report(validation: Validation, path: Path) -> None:
    """Write the page of a validation, replacing the file."""
    path.write_text(page(validation), encoding="utf-8")


def page(validation: Validation) -> str:
    """Return the page of a validation; it shows fewer bars, windows and examples of each query the more there are."""
    queries = max(len(validation.queries), 1)
    share = 1.0
    while True:
        room = _Room(
            bars=max(_LEAST.bars, int(min(160, 600 / queries) * share)),
            windows=max(_LEAST.windows, int(min(200, 240 / queries) * share)),
            examples=max(_LEAST.examples, int(min(20, 60 / queries) * share)),
        )
        text = _page(validation, room)
        size = len(text.encode())
        if size < MOST_BYTES or room == _LEAST:
            return text
        share *= min(0.9, MOST_BYTES / size)


def _page(validation: Validation, room: _Room) -> str:
    queries = validation.queries
    lines = [timeline(query.windows, room.bars) for query in queries]
    sections = [
        section(query, line, number, room.windows, room.examples)
        for number, (query, line) in enumerate(zip(queries, lines, strict=True))
    ]
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"/>',
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
        # Even if text got out of its place, nothing of it would run or be fetched.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>",
        f"<title>{safe(validation.job)}: {validation.status}</title><style>{STYLE}</style></head><body><main>",
        top(validation),
        overview(queries, lines) if len(queries) > 1 else "",
        *sections,
        replayed(validation.sources),
        reading(queries),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"
