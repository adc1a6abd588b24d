"""A bar chart as SVG: one group a query, one bar an engine, on a logarithmic scale."""

import math
from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#0b6e99", "#e0a030", "#7a9e3b", "#a05a8c")
GROUP_WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 64, 260, 48, 40, 30


def draw(groups: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """Return the SVG text; values are M events/s, 0 where an engine failed."""
    engines = list(groups[0][1])
    values = [value for _, rates in groups for value in rates.values() if value > 0]
    low = 10 ** math.floor(math.log10(min(values)))
    high = 10 ** math.ceil(math.log10(max(values)))
    width = LEFT + GROUP_WIDTH * len(groups) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HEIGHT + BOTTOM}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{TOP + HEIGHT + BOTTOM}" fill="white"/>',
    ]
    decade = low
    while decade <= high:
        y = _y(decade, low, high)
        parts.append(f'<line x1="{LEFT}" x2="{width - 8}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{decade:g}</text>')
        decade *= 10
    bar = (GROUP_WIDTH - 14) / len(engines)
    for index, (query, rates) in enumerate(groups):
        left = LEFT + 8 + index * GROUP_WIDTH
        for position, engine in enumerate(engines):
            if rates[engine] > 0:
                y = _y(rates[engine], low, high)
                parts.append(
                    f'<rect x="{left + position * bar:.1f}" y="{y:.1f}" width="{bar - 1:.1f}" '
                    f'height="{TOP + HEIGHT - y:.1f}" fill="{COLOURS[position % len(COLOURS)]}">'
                    f"<title>{escape(query)} {escape(engine)}: {rates[engine]:.2f} M events/s</title></rect>"
                )
        parts.append(
            f'<text x="{left + (GROUP_WIDTH - 14) / 2:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">'
            f"{escape(query)}</text>"
        )
    parts.append(f'<text x="{LEFT}" y="16" font-size="12">M events/s on one core (logarithmic)</text>')
    for position, engine in enumerate(engines):
        x = LEFT + position * 96
        parts.append(f'<rect x="{x}" y="22" width="10" height="10" fill="{COLOURS[position % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 14}" y="31">{escape(engine)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _y(value: float, low: float, high: float) -> float:
    share = (math.log10(value) - math.log10(low)) / (math.log10(high) - math.log10(low))
    return TOP + HEIGHT * (1 - share)
