"""Draws a query over time as SVG: exact rows as bars, below them a lane each for what is missing, extra or different.

The classes are those of `report_style`. Lanes tell the kinds of differences apart without colours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from penstock.replay.report_bins import Bin, Timeline, time_ticks, value_ticks
from penstock.replay.report_text import safe
from penstock.replay.report_wording import clock, counted, duration_text, percent, zone_text
from penstock.replay.validation_result import DifferenceKind, QueryValidation

WIDTH = 760.0
LEFT, RIGHT = 74.0, 82.0

_TOP = 8.0
_BARS = 128.0
_ACCURACY = 52.0
_LANE = 24.0
_GAP = 14.0
_LEAST_MARK = 4.0
_TICKS = 7

_KINDS = tuple(DifferenceKind)


def chart(query: QueryValidation, line: Timeline, number: int) -> str:
    """Return the chart of a query; ``number`` makes its ids unique on the page."""
    lanes = [kind for kind in _KINDS if getattr(query, kind)]
    shares = any(item.accuracy is not None for item in line.bins)
    accuracy_top = _TOP + _BARS + _GAP + 4
    lanes_top = accuracy_top + _ACCURACY + _GAP if shares else _TOP + _BARS + _GAP
    bottom = lanes_top + len(lanes) * _LANE if lanes or shares else _TOP + _BARS
    height = bottom + 42
    x = scale(line)
    parts = [
        f'<svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" width="{WIDTH:.0f}" height="{height:.0f}" role="img" '
        f'aria-labelledby="c{number}">',
        f'<title id="c{number}">{safe(_summary(query, line))}</title>',
        *time_axis(line, x, bottom, zone_text(query.windows)),
        *_bars(line, x),
        *(_accuracy(line, x, accuracy_top) if shares else ()),
        *(
            piece
            for place, kind in enumerate(lanes)
            for piece in _lane(query, line, x, kind, lanes_top + place * _LANE)
        ),
        '<g class="hit">',
        *(_hit(item, line, x, bottom) for item in line.bins),
        "</g></svg>",
    ]
    return "".join(parts)


def caption(query: QueryValidation, line: Timeline) -> str:
    """Return what the chart shows and what a bar stands for."""
    wrong = query.missing or query.extra or query.different
    template = "Rows {}: the exact ones as bars, below them those that differ" if wrong else "Exact rows {}"
    width = duration_text(line.width_s)
    if line.single:
        return f"{template.format('per window')}; windows start every {width}"
    return f"{template.format('by the start of their window')}; {width} a bar"


def strip(query: QueryValidation, line: Timeline | None, start: datetime, end: datetime) -> str:
    """Return when a query differed, between times that are common to several queries, as a strip for a cell."""
    if line is None or end <= start:
        return ""
    span = (end - start).total_seconds()
    pixels = 120.0

    def place(item: Bin) -> tuple[float, float]:
        left = (item.start - start).total_seconds() / span * pixels
        return left, max(line.width_s / span * pixels, 0.5)

    boxes = _boxes((*place(item), 3, 8) for item in line.bins)
    bad = [item for item in line.bins if item.missing or item.extra or item.different]
    marks = _boxes((left, max(width, 2.0), 0, 14) for left, width in map(place, bad))
    label = f"differs in {len(bad)} of {len(line.bins)} stretches of time" if bad else "same all the time"
    marked = f'<path class="mark" d="{marks}"/>' if bad else ""
    return (
        f'<svg class="strip" viewBox="0 0 {pixels:.0f} 14" width="{pixels:.0f}" height="14" role="img" '
        f'aria-label="{label}"><path class="bar" d="{boxes}"/>{marked}</svg>'
    )


def _summary(query: QueryValidation, line: Timeline) -> str:
    wrong = ", ".join(f"{getattr(query, kind):,} {kind}" for kind in _KINDS)
    return f"{query.query}: {counted(query.rows_exact, 'exact row')} from {line.start} to {line.end}; {wrong}"


def scale(line: Timeline) -> Callable[[datetime], float]:
    """Return where a time stands, from the left."""
    span = (line.end - line.start).total_seconds()
    return lambda moment: LEFT + (moment - line.start).total_seconds() / span * (WIDTH - LEFT - RIGHT)


def bin_width(line: Timeline) -> float:
    """Return the width of a bin."""
    return line.width_s / (line.end - line.start).total_seconds() * (WIDTH - LEFT - RIGHT)


def _bars(line: Timeline, x: Callable[[datetime], float]) -> Iterable[str]:
    ticks = value_ticks(max(item.exact for item in line.bins))
    scale = _BARS / ticks[-1]
    base = _TOP + _BARS
    for tick in ticks:
        y = base - tick * scale
        yield f'<path class="grid" d="M{LEFT:.0f} {y:.1f}H{WIDTH - RIGHT:.0f}"/>'
        yield f'<text class="y" x="{LEFT - 8:.0f}" y="{y + 4:.1f}">{_short(tick, ticks[-1])}</text>'
    width = bin_width(line)
    gap = min(1.5, width * 0.2)
    boxes = (
        (x(item.start) + gap / 2, width - gap, base - item.exact * scale, item.exact * scale) for item in line.bins
    )
    yield f'<path class="bar" d="{_boxes(boxes)}"/>'


def _accuracy(line: Timeline, x: Callable[[datetime], float], top: float) -> Iterable[str]:
    bins = [item for item in line.bins if item.accuracy is not None]
    least = min(min(item.accuracy or 0.0, item.promised or 1.0) for item in bins)
    floor = next(share for share in (0.99, 0.95, 0.9, 0.8, 0.5, 0.0) if share < least or share == 0.0)

    def y(share: float) -> float:
        return top + (1 - share) / (1 - floor) * _ACCURACY

    for share in (floor, 1.0):
        yield f'<path class="grid" d="M{LEFT:.0f} {y(share):.1f}H{WIDTH - RIGHT:.0f}"/>'
        yield f'<text class="y" x="{LEFT - 8:.0f}" y="{y(share) + 4:.1f}">{percent(share)}</text>'
    yield f'<text class="y" x="{LEFT - 8:.0f}" y="{top + _ACCURACY / 2 + 4:.1f}">accuracy</text>'
    promised_end = bins[-1].promised or 1.0
    yield f'<text x="{WIDTH - RIGHT + 8:.0f}" y="{y(promised_end) + 4:.1f}">promised</text>'
    width = bin_width(line)
    steps = (f"M{x(item.start):.1f} {y(item.accuracy or 0.0):.1f}h{width:.1f}" for item in bins)
    promised = (f"M{x(item.start):.1f} {y(item.promised or 1.0):.1f}h{width:.1f}" for item in bins)
    yield f'<path class="promised" d="{"".join(promised)}"/><path class="share" d="{"".join(steps)}"/>'


def _lane(
    query: QueryValidation, line: Timeline, x: Callable[[datetime], float], kind: DifferenceKind, top: float
) -> Iterable[str]:
    base = top + _LANE - 4
    most = max(getattr(item, kind) for item in line.bins)
    yield f'<path class="grid" d="M{LEFT:.0f} {base:.1f}H{WIDTH - RIGHT:.0f}"/>'
    yield f'<text class="y" x="{LEFT - 8:.0f}" y="{base - 3:.1f}">{kind}</text>'
    yield f'<text x="{WIDTH - RIGHT + 8:.0f}" y="{base - 3:.1f}">max {_short(most)}</text>'
    width = bin_width(line)
    mark = max(width - min(1.5, width * 0.2), 2.5)
    boxes = []
    for item in line.bins:
        rows = getattr(item, kind)
        if rows:
            tall = _LEAST_MARK + rows / most * (_LANE - 8 - _LEAST_MARK)
            boxes.append((x(item.start) + width / 2 - mark / 2, mark, base - tall, tall))
    yield f'<path class="mark" d="{_boxes(boxes)}"/>'


def time_axis(line: Timeline, x: Callable[[datetime], float], bottom: float, zone: str) -> Iterable[str]:
    """Yield the ticks and labels of the time axis, and its title."""
    for moment, label in time_ticks(line.start, line.end, _TICKS):
        yield f'<path class="tick" d="M{x(moment):.1f} {_TOP:.0f}V{bottom + 5:.1f}"/>'
        yield f'<text class="x" x="{x(moment):.1f}" y="{bottom + 18:.1f}">{label}</text>'
    days = dict.fromkeys(f"{moment.day} {moment:%B %Y}" for moment in (line.start, line.end))
    label = f"start of the window{zone}, {' to '.join(days)}"
    yield f'<text class="x" x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{bottom + 36:.1f}">{label}</text>'


def _hit(item: Bin, line: Timeline, x: Callable[[datetime], float], bottom: float) -> str:
    facts = [
        clock(item.start) if line.end - line.start < timedelta(days=1) else f"{item.start.date()} {clock(item.start)}"
    ]
    if not line.single:
        facts.append(f"{duration_text(line.width_s)}, {counted(item.windows, 'window')}")
    facts.append(counted(item.exact, "exact row"))
    wrong = [f"{getattr(item, kind):,} {kind}" for kind in _KINDS if getattr(item, kind)]
    facts += [f"{item.stream:,} in the stream", *wrong] if wrong else [] if item.estimated else ["all the same"]
    if item.estimated:
        facts.append(f"{item.estimated:,} estimated or shed")
    if item.accuracy is not None:
        facts.append(f"accuracy {percent(item.accuracy)}")
    text = "\n".join(facts)
    width = bin_width(line)
    return (
        f'<path d="M{x(item.start):.1f} {_TOP:.0f}h{width:.1f}V{bottom:.0f}h-{width:.1f}z"><title>{text}</title></path>'
    )


def _boxes(boxes: Iterable[tuple[float, float, float, float]]) -> str:
    """Return a path of rectangles given as left, width, top and height."""
    return "".join(f"M{left:.1f} {top:.1f}h{width:.1f}v{tall:.1f}h-{width:.1f}z" for left, width, top, tall in boxes)


def _short(number: int, greatest: int | None = None) -> str:
    """Return a number in the unit that the greatest beside it has."""
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if number and (greatest or number) >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:,}"
