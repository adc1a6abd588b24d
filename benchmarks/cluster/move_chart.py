"""Two curves as SVG, one below the other: how old rows are over time, on a logarithmic scale, and their rate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

LINE = Mapping[str, Sequence[tuple[float, float]]]
"""Points of seconds and a value, by the name of their line."""

COLOURS = ("#0b6e99", "#e0a030", "#7a9e3b", "#a05a8c")
MARKED = "#999"
WIDTH, LEFT, RIGHT, TOP, HEIGHT, GAP, BOTTOM = 900, 64, 16, 44, 220, 56, 36


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time that is shaded, with its name."""

    name: str
    from_s: float
    until_s: float


def draw(ages_ms: LINE, rates: LINE, spans: Sequence[Span], marks: Sequence[Span] = ()) -> str:
    """Return the SVG text of ages in milliseconds, above 0, and of rates in rows a second.

    ``marks`` are spans with a bar between the two, named once.
    """
    points = [point for line in (*ages_ms.values(), *rates.values()) for point in line]
    first, last = min(second for second, _ in points), max(second for second, _ in points)
    height = TOP + 2 * HEIGHT + GAP + BOTTOM

    def x(second: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (second - first) / max(last - first, 1e-9)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for span in spans:
        left, right = x(span.from_s), max(x(span.until_s), x(span.from_s) + 1)
        parts.append(
            f'<rect x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{2 * HEIGHT + GAP}" fill="#eee"/>'
        )
        parts.append(f'<text x="{left:.1f}" y="{TOP - 4}" fill="#444">{escape(span.name)}</text>')
    for number, mark in enumerate(marks):
        left, right = x(mark.from_s), max(x(mark.until_s), x(mark.from_s) + 1)
        y = TOP + HEIGHT + 14
        parts.append(f'<rect x="{left:.1f}" y="{y}" width="{right - left:.1f}" height="8" fill="{MARKED}"/>')
        if not number:
            parts.append(f'<text x="{left:.1f}" y="{y + 20}" fill="#444">{escape(mark.name)}</text>')
    values = [value for line in ages_ms.values() for _, value in line]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.01))
    decade = low
    while decade <= high * 1.01:
        parts += _rule(f"{decade:g}", _y(math.log10(decade), math.log10(low), math.log10(high), TOP))
        decade *= 10
    parts += _lines(
        {
            name: [(x(second), _y(math.log10(value), math.log10(low), math.log10(high), TOP)) for second, value in line]
            for name, line in ages_ms.items()
        }
    )
    parts.append(f'<text x="{LEFT}" y="14" font-size="12">age of rows at the sink, ms (logarithmic)</text>')
    below = TOP + HEIGHT + GAP
    most = max(value for line in rates.values() for _, value in line) * 1.1
    for step in range(5):
        parts += _rule(f"{most * step / 4:,.0f}", _y(step / 4, 0, 1, below))
    parts += _lines(
        {name: [(x(second), _y(value, 0, most, below)) for second, value in line] for name, line in rates.items()},
        first=len(ages_ms),
    )
    parts.append(f'<text x="{LEFT}" y="{below - 8}" font-size="12">rows a second</text>')
    for second in range(math.ceil(first / 10) * 10, int(last) + 1, 10):
        parts.append(f'<text x="{x(second):.1f}" y="{height - 16}" text-anchor="middle" fill="#444">{second}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{height - 4}" text-anchor="end">seconds</text>')
    for position, name in enumerate([*ages_ms, *rates]):
        left = LEFT + 260 + position * 150
        parts.append(f'<rect x="{left}" y="5" width="10" height="10" fill="{COLOURS[position % len(COLOURS)]}"/>')
        parts.append(f'<text x="{left + 14}" y="14">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _rule(text: str, y: float) -> list[str]:
    return [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>',
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{text}</text>',
    ]


def _lines(lines: LINE, first: int = 0) -> list[str]:
    """Return lines of pixels."""
    parts = []
    for position, line in enumerate(lines.values()):
        path = " ".join(f"{'L' if number else 'M'}{x:.1f},{y:.1f}" for number, (x, y) in enumerate(line))
        colour = COLOURS[(first + position) % len(COLOURS)]
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return parts


def _y(value: float, low: float, high: float, top: float) -> float:
    return top + HEIGHT * (1 - (value - low) / max(high - low, 1e-9))
