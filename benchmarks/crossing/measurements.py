"""All measurements, in turns, and the best of each. Called by the command."""

import sys
from collections.abc import Callable
from pathlib import Path

from penstock.benchmarks.crossing.links import LINKS
from penstock.benchmarks.crossing.pair import Figures, Pair

ROWS = (131_072, 16_384, 1_024)
RING_BYTES = (1 << 20, 4 << 20, 16 << 20, 64 << 20)
CROSSING_ROWS = {131_072: 6_000_000, 16_384: 4_000_000, 1_024: 1_000_000}
"""How many cross in a run, by the rows of a batch."""

BESIDE = {"0.2 M rows/s, 200 in a batch": (200, 200_000), "as many as go, 131,072 in a batch": (131_072, 0)}
"""Rows of a batch and of a second (0: as many as go)."""

ALONE = "one process, parallelism 2"
AT_ONCE = "the same on both cores at once, each all of it"


def measure_all(directory: Path, events: int, runs: int, seconds: float, share: float = 1.0) -> Figures:
    """Run everything; see the functions below for what each table holds. ``share`` of the rows cross that should."""
    with Pair() as pair:
        _say("filling")
        figures: Figures = {"filling": {str(rows): pair.run("fill", [0], rows=rows)[0] for rows in ROWS}}
        figures["crossing"] = _crossing(pair, runs, share)
        figures["ring sizes"] = _ring_sizes(pair, runs, share)
        figures["beside"] = _beside(pair, max(1, runs // 2), seconds)
        figures["sessions"] = _sessions(pair, directory, events, runs)
    return figures


def _crossing(pair: Pair, runs: int, share: float) -> Figures:
    """Return nanoseconds of CPU for a row of both sides and of each, by rows of a batch, link, and whether picked."""
    best: dict[str, Figures] = {}
    for picked in (True, False):
        for rows in ROWS:
            _say(f"crossing, {rows} rows{', picked' if picked else ''}")
            for _ in range(runs):
                for link in LINKS:
                    name = f"{'picked' if picked else 'whole'} {rows} {link}"
                    _keep_least(best, name, _cross(pair, link, rows, picked, share), "cpu_ns")
    return best


def _ring_sizes(pair: Pair, runs: int, share: float) -> Figures:
    """Return the same for rings of several sizes, by size."""
    best: dict[str, Figures] = {}
    _say("ring sizes")
    for _ in range(runs):
        for size in RING_BYTES:
            _keep_least(best, str(size), _cross(pair, "ring", ROWS[0], True, share, size), "cpu_ns")
    return best


def _cross(pair: Pair, link: str, rows: int, picked: bool, share: float, ring_bytes: int | None = None) -> Figures:
    batches = max(4, int(CROSSING_ROWS[rows] * share) // rows)
    sent, received = pair.run("cross", link=link, rows=rows, batches=batches, picked=picked, ring_bytes=ring_bytes)
    crossed = rows * batches
    sender_ns, receiver_ns = (side["cpu_s"] * 1e9 / crossed for side in (sent, received))
    return {
        "cpu_ns": sender_ns + receiver_ns,
        "sender_ns": sender_ns,
        "receiver_ns": receiver_ns,
        "rows_per_s": crossed / received["wall_s"],
    }


def _beside(pair: Pair, runs: int, seconds: float) -> Figures:
    """Return what `receive_beside` reports, by load and link; of the sender its CPU."""
    best: dict[str, Figures] = {}
    for load, (rows, rate) in BESIDE.items():
        _say(f"beside a busy loop, {load}")
        for _ in range(runs):
            for link in LINKS:
                sent, received = pair.run("beside", link=link, seconds=seconds, rows=rows, rows_per_s=rate)
                received["sender_cpu_s"] = sent["cpu_s"]
                _keep_each(best.setdefault(f"{load} {link}", received), received)
    _say("the same loop alone")
    alone = [pair.run("alone", [1], seconds=seconds)[0] for _ in range(2 * runs)]
    best["alone"] = max(alone, key=lambda figures: float(figures["steps_per_cpu_s"]))
    return best


def _sessions(pair: Pair, directory: Path, events: int, runs: int) -> Figures:
    """Return seconds of the clock and of CPU, by link; of one process at parallelism 1 and 2."""
    forms: dict[str, Callable[[], list[Figures]]] = {
        f"one process, parallelism {count}": lambda count=count: pair.run(  # type: ignore[misc]
            "sessions", [0], directory=str(directory), parallelism=count
        )
        for count in (1, 2)
    }
    # What a core gives while the other works as hard: the two share caches and memory, and may be one core's threads.
    forms[AT_ONCE] = lambda: [max(pair.run("sessions", directory=str(directory), parallelism=2), key=_cpu_s)]
    for link in LINKS:
        forms[link] = lambda link=link: pair.run(  # type: ignore[misc]
            "sessions", link=link, directory=str(directory), parallelism=2
        )
    best: dict[str, Figures] = {}
    for number in range(runs + 1):
        _say(f"query 11, run {number}")
        for name, run in forms.items():
            sides = run()
            figures = {
                "wall_s": max(side["wall_s"] for side in sides),
                "cpu_s": sum(side["cpu_s"] for side in sides),
                "most_cpu_s": max(side["cpu_s"] for side in sides),
                "rows": sum(side["rows"] for side in sides),
                "crossed": sum(side["received"] for side in sides),
                "events": events,
            }
            if number:
                # The first run pays for memory that is new to the processes.
                least_wall_s = min(figures["wall_s"], best.get(name, figures)["wall_s"])
                _keep_least(best, name, figures, "cpu_s")
                best[name]["wall_s"] = least_wall_s
    if len({figures["rows"] for figures in best.values()}) != 1:
        raise RuntimeError(f"the results differ: {best}")
    return best


def _keep_each(best: Figures, figures: Figures) -> None:
    """Keep the best of each figure: latencies that are least, rates that are greatest."""
    for name, value in figures.items():
        best[name] = max(best[name], value) if name.endswith("_per_s") or "steps" in name else min(best[name], value)


def _cpu_s(figures: Figures) -> float:
    return float(figures["cpu_s"])


def _keep_least(best: dict[str, Figures], name: str, figures: Figures, key: str) -> None:
    if name not in best or figures[key] < best[name][key]:
        best[name] = figures


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
