"""The sections of the page: verdict, overview, what was replayed, and how to read it. `report` puts them together.

Whatever comes from data goes through `report_text`, which HTML cannot get out of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.replay.report_bins import Timeline
from penstock.replay.report_charts import strip
from penstock.replay.report_text import cell, count_cell, folded, row, safe, table
from penstock.replay.report_wording import context, counted, percent, verdict, windows_that_differ
from penstock.replay.validation_result import ComparisonStatus, QueryValidation, SourceRange, Validation

UNFOLDED_PARTITIONS = 8
"""So many partitions are shown; more are folded."""

CLASSES = {
    ComparisonStatus.SAME: "same",
    ComparisonStatus.ESTIMATED: "same",
    ComparisonStatus.BELOW_MINIMUM: "differs",
    ComparisonStatus.DIFFERS: "differs",
    ComparisonStatus.NOT_COMPARED: "not-compared",
}

_SIGNS = {
    ComparisonStatus.SAME: "M14 23l6 6 11-13",
    ComparisonStatus.ESTIMATED: "M12 24c4-8 8-4 10-1s6 7 10-1",
    ComparisonStatus.BELOW_MINIMUM: "M22 12v18M14 24l8 8 8-8",
    ComparisonStatus.DIFFERS: "M13 19h18M13 27h18M27 13L17 32",
    ComparisonStatus.NOT_COMPARED: "M14 22h16",
}

_WORDS = {
    "exact": "What Spark computed from the same source rows, with nothing left out.",
    "missing": "The exact answer has the row, the stream did not write it.",
    "extra": "The stream wrote the row, the exact answer does not have it; one that was written twice is extra once.",
    "different": "Both have a row with this key, and other values in it.",
    "window": "A window of the query or, where it has none, a stretch of event time.",
}

_ACCURACY_WORDS = {
    "accuracy": "Source rows that went into the stream's answer, of those that went into the exact one.",
    "promised": "The accuracy that the stream was told to keep.",
    "covered": "Whether the exact value lies within the 95% interval of the stream's estimate.",
    "estimated": "The stream's row has other values because rows were shed for it: it says so by its accuracy.",
    "vanished": "The stream has no such row because rows were shed; nothing of it is covered.",
    "emerged": "The stream has a row that only its estimates let through a filter.",
}


def top(validation: Validation) -> str:
    """Return the verdict."""
    status = validation.status
    created = validation.created.strftime("%Y-%m-%d %H:%M:%S %Z").strip()
    return (
        f'<header class="{CLASSES[status]}">'
        f'<svg class="sign" viewBox="0 0 44 44" aria-hidden="true"><circle cx="22" cy="22" r="22"/>'
        f'<path d="{_SIGNS[status]}"/></svg>'
        f'<div><p class="job">Validation of {safe(validation.job)}</p><h1>{safe(verdict(validation))}</h1>'
        f"<p>{safe(context(validation))}</p>"
        f'<p class="facts">{safe(created)} · Penstock {safe(validation.penstock)} · '
        f"Spark {safe(validation.spark)}</p></div></header>"
    )


def overview(queries: Sequence[QueryValidation], lines: Sequence[Timeline | None]) -> str:
    """Return the table of all queries, with strips over time that share one axis."""
    timelines = [line for line in lines if line is not None]
    heads = ["query", "verdict", "exact rows", "missing", "extra", "different", "windows that differ"]
    figures = [False, False, True, True, True, True, True]
    if timelines:
        heads.append("over time")
        figures.append(False)
    rows = []
    for number, (query, line) in enumerate(zip(queries, lines, strict=True)):
        compared = query.why is None
        counts = (query.missing, query.extra, query.different)
        cells = [
            f'<th scope="row"><a href="#q{number}">{safe(query.query)}</a></th>',
            cell(f'<span class="pill">{query.status}</span>'),
            count_cell(query.rows_exact if compared else None),
            *(count_cell(count if compared else None, wrong=True) for count in counts),
            cell(windows_that_differ(query) if query.windows and compared else "–", figures=True),
        ]
        if timelines:
            first, last = min(item.start for item in timelines), max(item.end for item in timelines)
            cells.append(cell(strip(query, line, first, last) if compared else ""))
        rows.append(f'<tr class="{CLASSES[query.status]}">{"".join(cells)}</tr>')
    body = f"<tbody>{''.join(rows)}</tbody>"
    return (
        '<section aria-labelledby="overview"><h2 id="overview">Queries</h2>'
        f"{table('Every query of the job', heads, [body], figures=figures, hidden_caption=True)}</section>"
    )


def replayed(sources: Sequence[SourceRange]) -> str:
    """Return what was read, by source and partition."""
    return (
        '<section class="replayed" aria-labelledby="replayed"><h2 id="replayed">What was replayed</h2>'
        f"{''.join(map(_source, sources)) or '<p>Nothing.</p>'}</section>"
    )


def _source(source: SourceRange) -> str:
    topic = f", topic {safe(source.topic)}" if source.topic is not None else ""
    rows = f": {counted(source.rows, 'row')}" if source.rows is not None else ""
    less = f", {counted(source.left_out, 'offset')} left out by the log" if source.left_out is not None else ""
    text = f"{safe(source.source)}{topic}{rows}{less}"
    start, stop = source.start or {}, source.stop or {}
    partitions = sorted({*start, *stop})
    if not partitions:
        return f'<p class="sentence">{text}.</p>'
    # Offsets are not rows: transactions and compaction leave some of them without a message.
    heads = ("partition", "from offset", "up to, not including", "offsets")
    content = table(text, heads, [f"<tbody>{_offsets(partitions, start, stop)}</tbody>"], figures=[True] * 4)
    if len(partitions) <= UNFOLDED_PARTITIONS:
        return content
    return folded(f"{text}, {counted(len(partitions), 'partition')}", content, unfolded=False)


def _offsets(partitions: Iterable[int], start: Mapping[int, int], stop: Mapping[int, int]) -> str:
    rows = []
    for partition in partitions:
        first, last = start.get(partition), stop.get(partition)
        number = None if first is None or last is None else last - first
        texts = ("–" if value is None else f"{value:,}" for value in (partition, first, last, number))
        rows.append(row([cell(text, figures=True) for text in texts]))
    return "".join(rows)


def reading(queries: Sequence[QueryValidation]) -> str:
    """Return what the words of the page mean."""
    shed = any(query.grade or item.true_accuracy is not None for query in queries for item in (query, *query.windows))
    words = _WORDS | (_ACCURACY_WORDS if shed else {})
    items = "".join(f"<dt>{word}</dt><dd>{meaning}</dd>" for word, meaning in words.items())
    return (
        f'<section aria-labelledby="words"><h2 id="words">How to read this</h2><dl class="words">{items}</dl></section>'
    )


def accuracy_sentence(query: QueryValidation) -> str:
    """Return how accurate the answers of a query are, as a sentence; nothing where that was not counted."""
    parts = []
    if query.true_accuracy is not None:
        short = sum(window.short for window in query.windows)
        parts.append(
            f"{percent(query.true_accuracy)} of the source rows went into the answer, "
            f"{percent(query.promised_accuracy)} were promised"
        )
        if short:
            parts.append(f"{counted(short, 'window')} fell short of that")
    if query.biased:
        parts.append("the estimates have a bias")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""
