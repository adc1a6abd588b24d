"""The grades of a query's estimates on the page: a table, errors and coverage along time, and intervals as pictures.

The pictures have the time axis of the query's chart. Called by `report_query`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from penstock.replay.grades import AggregateGrade, GradedRow
from penstock.replay.report_bins import Bin, Timeline, timeline_of
from penstock.replay.report_charts import LEFT, RIGHT, WIDTH, bin_width, scale, time_axis
from penstock.replay.report_text import count_cell, row, safe, table
from penstock.replay.report_wording import clock, figure, in_utc, percent, zone_text
from penstock.replay.validation_result import QueryValidation

MOST_PICTURES = 4
"""So many aggregates have a picture of their intervals."""

_TOP, _HEIGHT, _LANE, _GAP = 8.0, 110.0, 52.0, 18.0


def grades_html(query: QueryValidation, line: Timeline | None, number: int, most: int) -> str:
    """Return the grades of a query, nothing if it has none; ``number`` makes ids unique on the page.

    Pictures have at most ``most`` intervals, the first ones.
    """
    grade = query.grade
    if grade is None:
        return ""
    parts = [_table(query, grade.aggregates)] if grade.aggregates else []
    if line is not None and any(item.error is not None or item.coverage is not None for item in line.bins):
        chart = _over_time(query, line, number)
        parts.append(_figure("Mean relative error of estimates, and share of intervals with the exact value", chart))
    for place, name in enumerate(_with_intervals(grade.drawn)[:MOST_PICTURES]):
        rows = [item for item in grade.drawn if item.aggregate == name][:most]
        own = timeline_of([in_utc(item.window_start) for item in rows if item.window_start is not None])
        if own is not None:
            of = ", ".join(f"{key}={value}" for key, value in rows[0].key.items())
            caption = f"{name}{f' of {of}' if of else ''}: the exact value as a line, 95% intervals as bars"
            parts.append(_figure(safe(caption), _intervals(query, rows, own, f"{number}-{place}")))
    return "".join(parts)


def _figure(caption: str, chart: str) -> str:
    return (
        f'<figure><figcaption>{caption}</figcaption><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{caption}">{chart}</div></figure>'
    )


def _table(query: QueryValidation, aggregates: Sequence[AggregateGrade]) -> str:
    heads = ["column", "results", "vanished", "biased", "intervals", "coverage", "mean error", "bias", "accuracy off"]
    rows = "".join(
        row(
            [
                f'<th scope="row">{safe(item.aggregate)}</th>',
                count_cell(item.rows),
                count_cell(item.vanished),
                count_cell(item.biased),
                count_cell(item.intervals),
                *(
                    count_cell(None) if value is None else f'<td class="n">{write(value)}</td>'
                    for value, write in (
                        (item.coverage, percent),
                        (item.mean_error, percent),
                        (item.bias, lambda value: f"{value:+.2f}"),
                        (item.accuracy_error, percent),
                    )
                ),
            ]
        )
        for item in aggregates
    )
    caption = f"Estimates of {safe(query.query)}; bias in standard errors"
    return table(caption, heads, [f"<tbody>{rows}</tbody>"], figures=[False, *[True] * 8])


def _over_time(query: QueryValidation, line: Timeline, number: int) -> str:
    x, bottom = scale(line), _TOP + 2 * _LANE + _GAP
    greatest = max((item.error or 0.0 for item in line.bins), default=0.0) or 1.0
    lanes: list[tuple[str, float, float, Callable[[Bin], float | None], str]] = [
        ("error", _TOP, greatest, lambda item: item.error, f"max {percent(greatest)}"),
        ("coverage", _TOP + _LANE + _GAP, 1.0, lambda item: item.coverage, "95%"),
    ]
    parts = []
    for name, top, most, value, note in lanes:
        base = top + _LANE
        shown = [(item, share) for item in line.bins if (share := value(item)) is not None]
        steps = (
            f"M{x(item.start):.1f} {base - share / most * _LANE:.1f}h{bin_width(line):.1f}" for item, share in shown
        )
        mark = base - (0.95 if name == "coverage" else 1.0) * _LANE
        parts += [
            f'<path class="grid" d="M{LEFT:.0f} {base:.1f}H{WIDTH - RIGHT:.0f}"/>',
            f'<path class="promised" d="M{LEFT:.0f} {mark:.1f}H{WIDTH - RIGHT:.0f}"/>',
            f'<text class="y" x="{LEFT - 8:.0f}" y="{base - _LANE / 2 + 4:.1f}">{name}</text>',
            f'<text x="{WIDTH - RIGHT + 8:.0f}" y="{mark + 4:.1f}">{note}</text>',
            f'<path class="share" d="{"".join(steps)}"/>',
        ]
    parts += time_axis(line, x, bottom, zone_text(query.windows))
    return _svg(f"g{number}", f"errors and coverage of {query.query}", bottom + 42, parts)


def _intervals(query: QueryValidation, rows: Sequence[GradedRow], line: Timeline, name: str) -> str:
    values = [value for item in rows for value in (item.exact, item.low, item.high, item.estimate) if value is not None]
    least, most = min(values), max(values)
    span = (most - least) or 1.0
    x, bottom = scale(line), _TOP + _HEIGHT

    def y(value: float) -> float:
        return _TOP + (most - value) / span * _HEIGHT

    placed = [(x(in_utc(item.window_start)) + bin_width(line) / 2, item) for item in rows if item.window_start]
    wide = max(min(bin_width(line) * 0.7, 12.0), 1.0)
    parts = [
        *(
            f'<text class="y" x="{LEFT - 8:.0f}" y="{y(value) + 4:.1f}">{figure(value)}</text>'
            for value in dict.fromkeys((least, most))
        ),
        *_bars(placed, y, wide),
        *time_axis(line, x, bottom, zone_text(query.windows)),
    ]
    return _svg(f"i{name}", f"intervals of {rows[0].aggregate} in {query.query}", bottom + 42, parts)


def _bars(placed: Sequence[tuple[float, GradedRow]], y: Callable[[float], float], wide: float) -> Iterable[str]:
    for at, item in placed:
        if item.low is not None and item.high is not None:
            kind = "bar" if item.covered else "mark"
            top, tall = y(item.high), max(y(item.low) - y(item.high), 1.0)
            yield (
                f'<path class="{kind}" d="M{at - wide / 2:.1f} {top:.1f}h{wide:.1f}v{tall:.1f}h-{wide:.1f}z">'
                f"<title>{_title(item)}</title></path>"
            )
    exact = (f"M{at - wide / 2:.1f} {y(item.exact):.1f}h{wide:.1f}" for at, item in placed if item.exact is not None)
    yield f'<path class="share" d="{"".join(exact)}"/>'


def _title(item: GradedRow) -> str:
    facts = [clock(in_utc(item.window_start))] if item.window_start is not None else []
    for name in ("exact", "estimate", "low", "high"):
        value = getattr(item, name)
        facts.append(f"{name} {'none' if value is None else figure(value)}")
    return "\n".join(facts)


def _with_intervals(rows: Sequence[GradedRow]) -> list[str]:
    return list(dict.fromkeys(item.aggregate for item in rows if item.low is not None))


def _svg(name: str, title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" width="{WIDTH:.0f}" height="{height:.0f}" role="img" '
        f'aria-labelledby="{name}"><title id="{name}">{safe(title)}</title>{"".join(parts)}</svg>'
    )
