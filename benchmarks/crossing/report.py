"""Figures as tables in Markdown."""

from collections.abc import Sequence

from penstock.benchmarks.crossing.links import LINKS
from penstock.benchmarks.crossing.measurements import ALONE, AT_ONCE, BESIDE, RING_BYTES, ROWS
from penstock.benchmarks.crossing.pair import Figures


def render(figures: Figures) -> str:
    """Write all tables."""
    return "\n\n".join(
        [
            _filling(figures["filling"]),
            _crossing(figures["crossing"], "picked"),
            _crossing(figures["crossing"], "whole"),
            _ring_sizes(figures["ring sizes"]),
            *(_beside(figures["beside"], load) for load in BESIDE),
            _sessions(figures["sessions"]),
        ]
    )


def _filling(figures: Figures) -> str:
    heads = [f"{rows:,} rows" for rows in ROWS]
    ways = list(figures[str(ROWS[0])])
    rows = [[way, *(f"{figures[str(count)][way]:.2f}" for count in ROWS)] for way in ways]
    return _table("Picked rows of 24 bytes into shared memory, ns of CPU for a row", ["way", *heads], rows)


def _crossing(figures: Figures, form: str) -> str:
    rows = []
    for link in LINKS:
        cells = [link]
        for count in ROWS:
            one = figures[f"{form} {count} {link}"]
            cells.append(f"{one['cpu_ns']:.1f} ({one['sender_ns']:.1f} + {one['receiver_ns']:.1f})")
        cells.append(f"{figures[f'{form} {ROWS[0]} {link}']['rows_per_s'] / 1e6:.0f}")
        rows.append(cells)
    title = f"Crossing, rows of 24 bytes, {form}: ns of CPU for a row (sender + receiver), and M rows/s of the largest"
    return _table(title, ["link", *(f"{count:,} rows" for count in ROWS), "M rows/s"], rows)


def _ring_sizes(figures: Figures) -> str:
    rows = [
        [f"{size >> 20} MiB", f"{figures[str(size)]['cpu_ns']:.1f}", f"{figures[str(size)]['rows_per_s'] / 1e6:.0f}"]
        for size in RING_BYTES
    ]
    return _table(f"Rings, {ROWS[0]:,} picked rows", ["ring", "ns for a row", "M rows/s"], rows)


def _beside(figures: Figures, load: str) -> str:
    alone = figures["alone"]["steps_per_cpu_s"]
    rows = []
    for link in LINKS:
        one = figures[f"{load} {link}"]
        cells = [link, f"{one['p50_ms']:.2f}", f"{one['p99_ms']:.2f}", f"{one['rows_per_s'] / 1e6:.2f}"]
        rows.append([*cells, f"{one['steps_per_cpu_s'] / alone:.0%}"])
    heads = ["link", "p50 ms", "p99 ms", "M rows/s", "steps of a CPU-second, of those alone"]
    return _table(f"Beside a busy loop, {load}", heads, rows)


def _sessions(figures: Figures) -> str:
    same, at_once = figures[ALONE], figures[AT_ONCE]
    one = figures["one process, parallelism 1"]
    rows = []
    for name, run in figures.items():
        extra = (run["cpu_s"] - same["cpu_s"]) * 1e9 / run["crossed"] if run["crossed"] else None
        rows.append(
            [
                name,
                f"{run['wall_s']:.3f}",
                f"{run['cpu_s']:.3f}",
                f"{run['most_cpu_s']:.3f}",
                f"{same['most_cpu_s'] / run['most_cpu_s']:.2f}",
                f"{at_once['most_cpu_s'] / run['most_cpu_s']:.2f}",
                f"{one['most_cpu_s'] / run['most_cpu_s']:.2f}",
                f"{same['wall_s'] / run['wall_s']:.2f}",
                "" if extra is None else f"{extra:.1f}",
            ]
        )
    heads = ["form", "wall s", "CPU s, both", "CPU s, busier side", "parallelism 2 / busier side"]
    heads += ["at once / busier side", "parallelism 1 / busier side", "wall of parallelism 2 / wall"]
    heads += ["ns more for a crossed row"]
    return _table(f"Query 11, {same['events']:,} events", heads, rows)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"## {title}\n", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
