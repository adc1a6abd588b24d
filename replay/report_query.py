"""The section of one query on the page: numbers, chart, the windows that differ, examples. `report` calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.replay.grades import Shedding
from penstock.replay.report_bins import Timeline
from penstock.replay.report_charts import caption, chart
from penstock.replay.report_grades import grades_html
from penstock.replay.report_page import CLASSES, accuracy_sentence
from penstock.replay.report_text import cell, count_cell, folded, row, safe, table, value_html
from penstock.replay.report_wording import (
    corrected,
    counted,
    noted,
    percent,
    sentence,
    shed,
    window_text,
    windows_that_differ,
    zone_text,
)
from penstock.replay.validation_result import DifferenceKind, Example, JsonValue, QueryValidation, WindowResult

UNFOLDED_WINDOWS = 12
UNFOLDED_EXAMPLES = 8
COLUMNS = 12
"""Columns of an example that are shown: keys first, then those that differ."""


def section(query: QueryValidation, line: Timeline | None, number: int, windows: int, examples: int) -> str:
    """Return the section of a query with at most so many windows and examples; ``number`` makes its ids unique."""
    by = f", rows by {', '.join(query.keys)}" if query.keys else ", whole rows"
    parts = [
        f'<section class="{CLASSES[query.status]}" aria-labelledby="q{number}"><div class="head">'
        f'<h2 id="q{number}">{safe(query.query)}</h2><span class="pill">{query.status}</span></div>',
        f'<p class="sentence">{safe(sentence(query))}</p>',
    ]
    if query.why is None:
        parts += [
            *(
                f"<p>{safe(text)}</p>"
                for text in (accuracy_sentence(query), *shed(query), *noted(query), corrected(query))
                if text
            ),
            f'<p class="how">{safe(query.mode + by)}</p>',
            _tiles(query),
            _figure(query, line, number) if line is not None else "",
            grades_html(query, line, number, windows),
            _windows(query, windows),
            _examples(query, examples),
        ]
    return "".join(parts) + "</section>"


def _tiles(query: QueryValidation) -> str:
    tiles = [("exact rows", query.rows_exact, False), ("stream rows", query.rows_stream, False)]
    tiles.append(("same", query.same, False))
    tiles += [(str(kind), getattr(query, kind), True) for kind in DifferenceKind]
    if query.grade is not None:
        tiles += [(str(kind), getattr(query, kind), False) for kind in Shedding]
    items = (
        f'<div class="{"bad" if wrong and count else "tile"}"><dt>{name}</dt><dd>{count:,}</dd></div>'
        for name, count, wrong in tiles
    )
    return f'<dl class="tiles">{"".join(items)}</dl>'


def _figure(query: QueryValidation, line: Timeline, number: int) -> str:
    unlisted = f"; {counted(query.windows_left_out, 'window')} not listed" if query.windows_left_out else ""
    return (
        f"<figure><figcaption>{caption(query, line)}{unlisted}</figcaption>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="chart of {safe(query.query)}">'
        f"{chart(query, line, number)}</div></figure>"
    )


_T = TypeVar("_T")
_WindowColumn = tuple[str, Callable[[WindowResult], str]]


def _windows(query: QueryValidation, most: int) -> str:
    notable = [window for window in query.windows if window.notable]
    if not notable:
        return ""
    columns = _window_columns(query.windows)
    heads = [f"window{zone_text(query.windows)}", *(name for name, _ in columns)]
    rows = "".join(
        row([f'<th scope="row">{window_text(window)}</th>', *(write(window) for _, write in columns)])
        for window in notable[:most]
    )
    differing = sum(window.differs for window in notable)
    number = windows_that_differ(query)
    title = f"{number[0].upper()}{number[1:]} window{'s' * (number != '1')} that differ{'s' * (number == '1')}"
    if len(notable) > differing:
        title += f", {len(notable) - differing:,} below the minimum"
    content = table(
        f"Windows of {safe(query.query)}",
        heads,
        [f"<tbody>{rows}</tbody>"],
        figures=[False, *[True] * len(columns)],
        hidden_caption=True,
    )
    return folded(title, content + _more(len(notable), most, "windows"), unfolded=len(notable) <= UNFOLDED_WINDOWS)


def _window_columns(windows: Sequence[WindowResult]) -> list[_WindowColumn]:
    columns: list[_WindowColumn] = [
        ("exact rows", lambda window: count_cell(window.rows_exact)),
        ("stream rows", lambda window: count_cell(window.rows_stream)),
        ("missing", lambda window: count_cell(window.missing, wrong=True)),
        ("extra", lambda window: count_cell(window.extra, wrong=True)),
        ("different", lambda window: count_cell(window.different, wrong=True)),
    ]
    if any(window.rows_expected is not None for window in windows):
        columns += [
            ("rows expected", lambda window: count_cell(window.rows_expected)),
            ("rows used", lambda window: count_cell(window.rows_used)),
        ]
    if any(window.true_accuracy is not None for window in windows):
        columns += [
            ("promised", lambda window: cell(percent(window.promised_accuracy), figures=True)),
            ("accuracy", lambda window: _optional(window.true_accuracy, percent, bad=window.short)),
        ]
    if any(window.biased is not None for window in windows):
        columns.append(("biased", lambda window: _optional(window.biased, _yes)))
    return columns


def _optional(value: _T | None, write: Callable[[_T], str], *, bad: bool = False) -> str:
    if value is None:
        return count_cell(None)
    return f'<td class="n{" bad" if bad else ""}">{write(value)}</td>'


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _examples(query: QueryValidation, most: int) -> str:
    if not query.examples:
        return ""
    listed = query.examples[:most]
    columns = _columns(query.keys, listed)
    names = columns[:COLUMNS]
    figures = [False, False, *(_figures(name, listed) for name in names)]
    heads = ["difference", "side", *(safe(name) + (" <i>(key)</i>" if name in query.keys else "") for name in names)]
    bodies = [_example(example, names, figures[2:]) for example in listed]
    content = table(
        f"Rows of {safe(query.query)}, as the stream wrote them and as they are exactly",
        heads,
        bodies,
        figures=figures,
        hidden_caption=True,
    )
    if len(columns) > len(names):
        content += f'<p class="more">{counted(len(columns) - len(names), "more column")}, not shown.</p>'
    return folded(
        counted(len(query.examples), "example"),
        f'<div class="examples">{content}</div>' + _more(len(query.examples), most, "examples"),
        unfolded=len(listed) <= UNFOLDED_EXAMPLES,
    )


def _example(example: Example, names: Sequence[str], figures: Sequence[bool]) -> str:
    sides = [
        (name, rows, other)
        for name, rows, other in (("stream", example.stream, example.exact), ("exact", example.exact, example.stream))
        if rows is not None
    ]
    if not sides:
        sides = [("stream" if example.status is DifferenceKind.EXTRA else "exact", example.key, None)]
    rows = []
    for place, (side, values, other) in enumerate(sides):
        head = f'<th scope="rowgroup" rowspan="{len(sides)}">{example.status}</th>' if not place else ""
        cells = []
        for name, right in zip(names, figures, strict=True):
            value: JsonValue = values.get(name, example.key.get(name))
            apart = other is not None and other.get(name) != value
            text = value_html(value, other.get(name) if other is not None and apart else None)
            cells.append(cell(f"<mark>{text}</mark>" if apart and name not in example.key else text, figures=right))
        rows.append(row([head, cell(side), *cells]))
    return f"<tbody>{''.join(rows)}</tbody>"


def _columns(keys: Sequence[str], examples: Sequence[Example]) -> list[str]:
    """Return the columns of examples: keys, columns that differ somewhere, all others."""
    names = dict.fromkeys(keys)
    names |= dict.fromkeys(name for example in examples for name in example.key)
    for example in examples:
        if example.stream is not None and example.exact is not None:
            both = {**example.exact, **example.stream}
            names |= dict.fromkeys(name for name in both if example.exact.get(name) != example.stream.get(name))
    for example in examples:
        names |= dict.fromkeys([*(example.exact or {}), *(example.stream or {})])
    return list(names)


def _figures(name: str, examples: Sequence[Example]) -> bool:
    values = [side.get(name) for item in examples for side in (item.stream, item.exact) if side is not None]
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)


def _more(number: int, listed: int, what: str) -> str:
    if number <= listed:
        return ""
    return f'<p class="more">{listed:,} of {number:,} {what} are shown; validation.json has those that were kept.</p>'
