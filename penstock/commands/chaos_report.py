"""Runs the experiments of ``penstock chaos`` and prints their reports."""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.chaos.experiment import ChaosOptions, ChaosReport
from penstock.chaos.head_trials import chaos_of
from penstock.commands.loading import capture
from penstock.model.errors import OptionError
from penstock.model.failpoint_names import MEANINGS
from penstock.tables import Column, count_text, print_table, seconds_text

NOT_SEEN = "results of timers in processing time, and effects of functions outside the pipeline, cannot be told apart"


def attack(file: Path, options: ChaosOptions) -> ChaosReport:
    """Run a pipeline under attack in a temporary directory.

    Raises:
        UserError: the pipeline has no output to compare.
    """
    job, _ = capture(file, options.arguments)
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-") as folder:
        trials = chaos_of(options, job.graph)
        return trials(file, job, options, Path(folder)).run()


def parse_parallelism(text: str | None) -> tuple[int, ...]:
    """Return the counts of ``2,3,1``; none without text.

    Raises:
        OptionError: the text is something else.
    """
    if text is None:
        return ()
    try:
        counts = tuple(int(item) for item in text.split(","))
    except ValueError:
        counts = (0,)
    if min(counts) < 1:
        raise OptionError(f"--parallelism is a count, or several with commas such as 2,3,1, not {text!r}")
    return counts


def show(report: ChaosReport, *, as_json: bool) -> None:
    """Print a report: one JSON object on stdout, or a table on stderr and what there is to say about it."""
    if as_json:
        print(json.dumps(report_data(report)))
        return
    titles = ("kills", "restarts", "runs", "rows", "lost", "duplicated", "recovery p50", "p99", "max", "seed")
    counts = (report.kills, report.restarts, report.runs, report.rows, report.lost, report.duplicated)
    times = (report.recovery_s(percentile) for percentile in (50, 99, 100))
    row = [*map(count_text, counts), *("" if time is None else seconds_text(time) for time in times), str(report.seed)]
    print_table([Column(title) for title in titles], [row])
    if report.killed:
        killed = (f"{name} {count_text(times)} time{'s' * (times > 1)}" for name, times in report.killed.items())
        print(f"killed: {', '.join(killed)}", file=sys.stderr)
    if report.points:
        print(f"died at {len(report.points)} failpoints", file=sys.stderr)
    if report.unreached:
        print(f"the job did not come by {', '.join(report.unreached)}", file=sys.stderr)
    if report.elsewhere:
        print(f"not killed, as only processes on this host can be: {', '.join(report.elsewhere)}", file=sys.stderr)
    for sink, reason in report.left_out.items():
        print(f"left out: {sink}, which is not promised to be the same: {reason}", file=sys.stderr)
    print(f"note: {NOT_SEEN}", file=sys.stderr)
    if report.failure is not None:
        print(f"error: {report.failure}", file=sys.stderr)


def report_data(report: ChaosReport) -> dict[str, Any]:
    """Return a report as JSON-able data: its fields, and percentiles in place of the recovery times."""
    data = asdict(report)
    del data["recoveries_s"]
    percentiles = {"p50": 50, "p99": 99, "max": 100}
    data |= {f"recovery_{name}_s": report.recovery_s(percentile) for name, percentile in percentiles.items()}
    return {**data, "exact": report.exact}


def list_failpoints(*, as_json: bool) -> None:
    """Print every failpoint with its meaning, on stdout."""
    if as_json:
        print(json.dumps(dict(MEANINGS)))
        return
    print_table(
        [Column("failpoint", figures=False), Column("passed when", figures=False)],
        [[name, meaning] for name, meaning in sorted(MEANINGS.items())],
        stream=sys.stdout,
    )
