"""The view of ``penstock top``: a running job as tables that keep changing."""

import json
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any, Protocol

from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.engine.jobs.metric_rates import JobRates
from penstock.engine.jobs.metrics import JobMetrics
from penstock.jobs_client.errors import JobUnreachableError
from penstock.runs.progress import watermark_text
from penstock.tables import bytes_text, console, count_text, rate_text, seconds_text


class WatchedJob(Protocol):
    """A running job: over HTTP a `JobClient`, on Ray a `JobOnRay`."""

    def metrics(self) -> JobMetrics:
        """Return its metrics.

        Raises:
            JobUnreachableError: it is gone.
            PenstockError: it cannot be asked.
        """


def watch(job: WatchedJob, interval_s: float, *, once: bool, as_json: bool) -> None:
    """Show a job until it ends; ``once``: what it did in one interval.

    Raises:
        PenstockError: nothing answers there, or something else than a job.
    """
    before = job.metrics()
    live = Live(view(before, JobRates(None, before)), console=console(sys.stdout), auto_refresh=False)
    with nullcontext() if as_json or once else live:
        while True:
            time.sleep(interval_s)
            try:
                now = job.metrics()
            except JobUnreachableError:
                if once:
                    raise
                break
            rates = JobRates(before, now)
            if as_json:
                print(json.dumps(view_data(now, rates)), flush=True)
            elif once:
                console(sys.stdout).print(view(now, rates))
            else:
                live.update(view(now, rates), refresh=True)
            if once:
                return
            before = now
    if not as_json:
        print(f"{before.name} has ended")


def view(metrics: JobMetrics, rates: JobRates) -> RenderableType:
    """Return what is shown of a job."""
    parts: list[RenderableType] = [Text(_headline(metrics, rates), style="bold")]
    if metrics.checkpoints is not None:
        parts.append(Text(_checkpoint_line(metrics)))
    if metrics.shedding is not None:
        parts.append(Text(f"keep rates: {metrics.shedding.sentence()}"))
    if metrics.scaling is not None:
        parts.append(Text(f"scaling: {metrics.scaling.sentence()}"))
    parts += [Text(f"{seconds_text(item.ago_s)} ago {item.sentence()}") for item in metrics.decisions]
    if metrics.change is not None:
        parts.append(Text(f"under way: {metrics.change.sentence()}"))
    parts += [_sources(metrics, rates), _operators(metrics, rates), _instances(metrics, rates)]
    return Group(*parts)


def view_data(metrics: JobMetrics, rates: JobRates) -> dict[str, Any]:
    """Return what is shown as plain data: rates per second, shares of time in [0, 1], and the snapshot behind them."""
    return {
        "job": metrics.name,
        "seconds": rates.seconds,
        "source_rows_per_s": rates.source_rows,
        "sources": rates.sources(),
        "operators": {name: asdict(rate) for name, rate in rates.operators().items()},
        "states": {name: asdict(rate) for name, rate in rates.states().items()},
        "instances": [
            {
                "task": item.task,
                "instance": item.instance,
                "task_manager": item.task_manager,
                "key_groups": item.key_groups,
                **asdict(rates.shares(item)),
            }
            for item in metrics.instances
        ],
        "change": None if metrics.change is None else asdict(metrics.change),
        "metrics": metrics.as_dict(),
    }


def _headline(metrics: JobMetrics, rates: JobRates) -> str:
    parts = [
        metrics.name,
        f"running {seconds_text(metrics.elapsed_ns / 1e9)}",
        rate_text(rates.source_rows),
        f"{count_text(metrics.source_rows)} rows read",
        f"watermark {watermark_text(metrics)}",
        f"state {bytes_text(metrics.state_bytes)}",
    ]
    missing = {
        "late": metrics.ledger.late,
        "dead letters": metrics.ledger.dead_lettered,
        "shed": metrics.ledger.shed,
    }
    parts += [f"{count_text(rows)} {what}" for what, rows in missing.items() if rows]
    return "  ".join(parts)


def _checkpoint_line(metrics: JobMetrics) -> str:
    checkpoints = metrics.checkpoints
    assert checkpoints is not None
    parts = [f"checkpoints {checkpoints.committed} committed, {checkpoints.aborted} given up"]
    if checkpoints.last_epoch is not None:
        parts.append(f"epoch {checkpoints.last_epoch}")
    if checkpoints.last_duration_ns is not None:
        parts.append(f"took {seconds_text(checkpoints.last_duration_ns / 1e9)}")
    if checkpoints.last_uploaded_bytes is not None and checkpoints.last_reused_bytes is not None:
        parts.append(
            f"{bytes_text(checkpoints.last_uploaded_bytes)} new, {bytes_text(checkpoints.last_reused_bytes)} kept"
        )
    if checkpoints.restarts:
        parts.append(f"{checkpoints.restarts} restarts")
    if checkpoints.last_abort is not None:
        parts.append(f"given up: {checkpoints.last_abort}")
    if checkpoints.last_failed_retention is not None:
        parts.append(f"old ones stay: {checkpoints.last_failed_retention}")
    return "  ".join(parts)


def _sources(metrics: JobMetrics, rates: JobRates) -> Table:
    per_second = rates.sources()
    return _table(
        ("source", "rows/s", "rows", "lag", "waiting"),
        (
            (
                source.source,
                rate_text(per_second[source.source]),
                count_text(source.rows),
                "-" if source.lag_us is None else seconds_text(source.lag_us / 1e6),
                "-" if source.lag_messages is None else f"{count_text(source.lag_messages)} messages",
            )
            for source in metrics.sources
        ),
    )


def _operators(metrics: JobMetrics, rates: JobRates) -> Table:
    per_second, state_rates = rates.operators(), rates.states()
    states = {state.operator: state.bytes for state in metrics.states}
    rows = []
    for line in metrics.ledger.operators:
        name = line.operator
        state = state_rates.get(name)
        hit_rate = None if state is None else state.hit_rate
        wait_ns = None if state is None else state.wait_ns
        rows.append(
            (
                name,
                rate_text(per_second[name].rows_in),
                rate_text(per_second[name].rows_out),
                bytes_text(states[name]) if name in states else "-",
                "-" if hit_rate is None else f"{hit_rate:.1%}",
                "-" if wait_ns is None else seconds_text(wait_ns / 1e9),
            )
        )
    return _table(("operator", "in", "out", "state", "hits", "fetch"), rows)


def _instances(metrics: JobMetrics, rates: JobRates) -> Table:
    spread = any(item.task_manager is not None for item in metrics.instances)
    rows = []
    for item in metrics.instances:
        shares = rates.shares(item)
        groups = "-" if item.key_groups is None else count_text(item.key_groups)
        rows.append(
            (
                f"{item.task}[{item.instance}]",
                *((item.task_manager or "-", groups) if spread else ()),
                *(f"{part:.0%}" for part in (shares.busy, shares.core_wait, shares.input_wait, shares.output_wait)),
                f"{shares.remote_wait:.0%}",
                bytes_text(item.waiting_bytes),
            )
        )
    # Two words stand below each other, so that names have room on a terminal of 80 columns.
    places = ("at", "key\ngroups") if spread else ()
    return _table(("instance", *places, "busy", "no\ncore", "idle", "held\nback", "outside", "waiting"), rows)


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
