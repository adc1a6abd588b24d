"""Windows gathered along time for a chart, and the ticks of its axes. Pure; `report_charts` draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from penstock.replay.report_wording import in_utc
from penstock.replay.validation_result import WindowResult

EPOCH = datetime(1970, 1, 1)

NICE_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0),
    *(900.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0, 43200.0, 86400.0, 172800.0, 604800.0, 1209600.0, 2592000.0),
    *(7776000.0, 31536000.0),
)
"""Durations that people count in."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Windows that start within a width from ``start``; ``accuracy`` is rows used / rows expected of all of them.

    ``estimated`` rows differ as rows were shed for them; ``error`` is the mean relative error of estimates,
    ``coverage`` the share of intervals that hold the exact value. All are None where there is nothing to count.
    """

    start: datetime
    windows: int
    exact: int
    stream: int
    missing: int
    extra: int
    different: int
    accuracy: float | None
    promised: float | None
    estimated: int = 0
    error: float | None = None
    coverage: float | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bins in time order, those without a window left out; ``single``: every window has a bin of its own."""

    start: datetime
    end: datetime
    width_s: float
    single: bool
    bins: tuple[Bin, ...]


def timeline(windows: Sequence[WindowResult], limit: int) -> Timeline | None:
    """Gather windows into at most ``limit`` bins of one width; None unless two of them start at different times."""
    placed = [(in_utc(window.window_start), window) for window in windows if window.window_start is not None]
    starts = sorted({start for start, _ in placed})
    if len(starts) < 2:
        return None
    gap = min((later - earlier).total_seconds() for earlier, later in pairwise(starts))
    span = (starts[-1] - starts[0]).total_seconds()
    width = _width(gap, span, limit)
    single = width == gap
    # Windows may be offset; wider bins begin where people expect it, at whole minutes or hours.
    first = starts[0] if single else _floor(starts[0], width)
    groups: dict[int, list[WindowResult]] = {}
    for start, window in placed:
        place = math.floor((start - first).total_seconds() / width + 1e-9)
        groups.setdefault(place, []).append(window)
    bins = tuple(
        _gathered(first + timedelta(seconds=place * width), windows_of_bin)
        for place, windows_of_bin in sorted(groups.items())
    )
    end = bins[-1].start + timedelta(seconds=width)
    return Timeline(first, end, width, single and all(item.windows == 1 for item in bins), bins)


def timeline_of(starts: Sequence[datetime]) -> Timeline | None:
    """Return the times of windows as a timeline without bins; None unless two differ."""
    times = sorted(set(starts))
    if len(times) < 2:
        return None
    gap = min((later - earlier).total_seconds() for earlier, later in pairwise(times))
    return Timeline(times[0], times[-1] + timedelta(seconds=gap), gap, single=True, bins=())


def _width(gap: float, span: float, limit: int) -> float:
    if span / gap + 1 <= limit:
        return gap
    least = span / (limit - 1)
    nice = [width for width in NICE_S if width >= least]
    divisors = [width for width in nice if abs(width / gap - round(width / gap)) < 1e-9]
    # A width that is no multiple of the windows' makes bars jump that are level; sessions have no such multiple.
    if divisors and divisors[0] <= 4 * least:
        return divisors[0]
    return nice[0] if nice and gap < least / 50 else gap * math.ceil(least / gap)


def _floor(moment: datetime, width_s: float) -> datetime:
    return EPOCH + timedelta(seconds=math.floor((moment - EPOCH).total_seconds() / width_s) * width_s)


def _gathered(start: datetime, windows: Sequence[WindowResult]) -> Bin:
    counted = [window for window in windows if window.true_accuracy is not None]
    expected = sum(window.rows_expected or 0 for window in counted)
    errors = [window.mean_error for window in windows if window.mean_error is not None]
    intervals = sum(window.intervals for window in windows)
    return Bin(
        start,
        len(windows),
        exact=sum(window.rows_exact for window in windows),
        stream=sum(window.rows_stream for window in windows),
        missing=sum(window.missing for window in windows),
        extra=sum(window.extra for window in windows),
        different=sum(window.different for window in windows),
        accuracy=sum(window.rows_used or 0 for window in counted) / expected if expected else None,
        promised=max((window.promised_accuracy for window in counted), default=None),
        estimated=sum(window.estimated + window.vanished + window.emerged for window in windows),
        error=sum(errors) / len(errors) if errors else None,
        coverage=sum(window.intervals_covered for window in windows) / intervals if intervals else None,
    )


def time_ticks(start: datetime, end: datetime, most: int) -> list[tuple[datetime, str]]:
    """Return at most ``most`` round times from ``start`` to ``end`` with labels; a new day is told by its date."""
    span = (end - start).total_seconds()
    step = next((width for width in NICE_S if span / width <= most - 1), span / (most - 1))
    tick = _floor(start, step)
    ticks = []
    while tick <= end:
        if tick >= start:
            ticks.append((tick, _tick_text(tick, step)))
        tick += timedelta(seconds=step)
    return ticks


def _tick_text(tick: datetime, step: float) -> str:
    if step >= NICE_S[-1]:
        return f"{tick:%b %Y}"
    if step >= 86400 or (tick.hour, tick.minute, tick.second, tick.microsecond) == (0, 0, 0, 0):
        return f"{tick.day} {tick:%b}"
    if step >= 60:
        return f"{tick:%H:%M}"
    return f"{tick:%H:%M:%S}" if step >= 1 else f"{tick:%H:%M:%S}.{tick.microsecond // 1000:03}"


def value_ticks(greatest: float) -> list[int]:
    """Return 0 and two to five round numbers, the last at or above ``greatest``."""
    rough = max(greatest, 1) / 4
    power = 10 ** math.floor(math.log10(rough)) if rough >= 1 else 1
    step = next(int(power * factor) for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [step * number for number in range(math.ceil(max(greatest, 1) / step) + 1)]
