"""Shows a running job on a terminal, one line that keeps changing; silent where nobody watches."""

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from rich.progress import Progress, SpinnerColumn, TextColumn

from penstock.engine.executors.embedded import Progress as Callback
from penstock.engine.jobs.metrics import JobMetrics
from penstock.tables import bytes_text, console, count_text, rate_text, seconds_text

RATE_SAMPLES = 10
"""The rate shown is the mean over this many reports."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def watched() -> bool:
    """Return whether stderr is a terminal that can redraw a line, and ``NO_COLOR`` is not set."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def showing(name: str, *, enabled: bool) -> Iterator[Callback | None]:
    """Show a job's progress; yields what to call with each snapshot, None if not enabled.

    What the program prints meanwhile appears above the line. The line disappears at the end.
    """
    if not enabled:
        yield None
        return
    line = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        console=console(),
        auto_refresh=False,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )
    rates = RowRate()
    with line:
        task = line.add_task(f"{name}  starting", total=None)

        def show(metrics: JobMetrics) -> None:
            line.update(
                task,
                description=f"{name}  {progress_text(metrics, rates.add(metrics))}",
                refresh=True,
            )

        yield show


class RowRate:
    """Rows per second over the latest snapshots."""

    def __init__(self) -> None:
        """Start without any."""
        self._seen: deque[tuple[int, int]] = deque([(0, 0)], maxlen=RATE_SAMPLES + 1)

    def add(self, metrics: JobMetrics) -> float:
        """Take a snapshot in and return the rate."""
        self._seen.append((metrics.elapsed_ns, metrics.source_rows))
        (first_ns, first_rows), (last_ns, last_rows) = self._seen[0], self._seen[-1]
        return (last_rows - first_rows) / max(last_ns - first_ns, 1) * 1e9


def progress_text(metrics: JobMetrics, rows_per_s: float) -> str:
    """Return the line's text: rows read, rows per second, watermark, state, time, late and bad records."""
    parts = [
        f"{count_text(metrics.source_rows)} rows read",
        rate_text(rows_per_s),
        f"watermark {watermark_text(metrics)}",
        f"state {bytes_text(metrics.state_bytes)}",
        seconds_text(metrics.elapsed_ns / 1e9),
    ]
    if metrics.ledger.late:
        parts.append(f"{count_text(metrics.ledger.late)} late")
    parts += [line.sentence() for line in metrics.bad_records]
    return "  ".join(parts)


def watermark_text(metrics: JobMetrics) -> str:
    """Return the least watermark of all instances in UTC, ``-`` while none is known."""
    watermarks_us = [item.watermark_us for item in metrics.instances if item.watermark_us is not None]
    if not watermarks_us:
        return "-"
    try:
        return f"{_EPOCH + timedelta(microseconds=min(watermarks_us)):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return "-"
