"""Pieces of the page: text that data cannot break out of, and cells of tables. Pure; the page's parts use it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

from penstock.replay.validation_result import JsonValue

CELL_CHARACTERS = 60
"""Longer values are cut."""


def safe(text: str) -> str:
    """Return text for HTML; characters that show nothing, or turn what is around them, stand there as escapes."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return escape(text)


def value_text(value: JsonValue) -> str:
    """Return a value as people read it: texts as they are, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def value_html(value: JsonValue, other: JsonValue = None) -> str:
    """Return a value for a cell. A long one is cut; where it is to be told from another, not before they part."""
    if value is None or value == "":
        return f"<i>{'null' if value is None else 'empty'}</i>"
    text = value_text(value)
    if len(text) <= CELL_CHARACTERS:
        return safe(text)
    parting = _parting(text, value_text(other)) if other is not None else 0
    begin = max(0, parting - CELL_CHARACTERS // 3) if parting > CELL_CHARACTERS * 2 // 3 else 0
    cut = text[begin : begin + CELL_CHARACTERS]
    return f"{'…' if begin else ''}{safe(cut)}{'…' if begin + CELL_CHARACTERS < len(text) else ''}"


def _parting(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def table(
    caption: str, heads: Sequence[str], bodies: Iterable[str], *, figures: Sequence[bool], hidden_caption: bool = False
) -> str:
    """Return a table that scrolls sideways where it must; ``caption`` and ``heads`` are HTML, ``bodies`` are its rows.

    Columns of ``figures`` stand to the right.
    """
    cells = "".join(
        f'<th scope="col" class="n">{head}</th>' if right else f'<th scope="col">{head}</th>'
        for head, right in zip(heads, figures, strict=True)
    )
    hidden = ' class="hidden"' if hidden_caption else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table>'
        f"<caption{hidden}>{caption}</caption><thead><tr>{cells}</tr></thead>{''.join(bodies)}</table></div>"
    )


def row(cells: Iterable[str]) -> str:
    """Return a row of a table of cells that are complete."""
    return f"<tr>{''.join(cells)}</tr>"


def cell(content: str, *, figures: bool = False) -> str:
    """Return a cell of HTML."""
    return f'<td class="n">{content}</td>' if figures else f"<td>{content}</td>"


def count_cell(number: int | None, *, wrong: bool = False) -> str:
    """Return a cell with a count; one that ought to be 0 and is not stands out, and 0 steps back."""
    if number is None:
        return '<td class="n zero">–</td>'
    kind = " bad" if wrong and number else " zero" if not number else ""
    return f'<td class="n{kind}">{number:,}</td>'


def folded(summary: str, content: str, *, unfolded: bool) -> str:
    """Return content that can be folded under its summary."""
    state = ' open="open"' if unfolded else ""
    return f"<details{state}><summary>{summary}</summary>{content}</details>"
