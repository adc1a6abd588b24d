"""The launcher of ``penstock run``: overrides, progress and a summary in place of a job's own start."""

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.dsl.handle import Handle, RunningJob, serve
from penstock.dsl.job import Job, make_ready, not_begun
from penstock.dsl.sink_relocation import relocate
from penstock.engine.connectors.local.print_sink import PrintSink
from penstock.engine.executors.embedded import Progress
from penstock.engine.jobs.bad_records import BadRecordsLine
from penstock.engine.jobs.end_of_input import check_at_end
from penstock.engine.jobs.ledger import OperatorLine
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.recovery import StartInterrupted
from penstock.http_api.endpoints import Endpoint, open_endpoint
from penstock.model.control import check_shed
from penstock.model.dead_letter_limit import dead_letter_limit
from penstock.model.durations import to_microseconds
from penstock.model.job_graph import SinkSpec
from penstock.model.shedding_status import SheddingStatus
from penstock.runs.control_file import read_control_file
from penstock.runs.interrupts import interrupts
from penstock.runs.metrics_token import check_reference
from penstock.runs.progress import showing, watched
from penstock.runs.run_options import (
    AS_THEY_ARE,
    CHECKPOINTS,
    LOOP,
    RESTARTS,
    RunOptions,
    changed_fields,
    letter_target,
    parallelism_option,
    restore_from,
    with_control,
)
from penstock.tables import Column, count_text, print_table, rate_text, seconds_text

REPORT_S = 0.2
"""Interval at which the progress of a background job is shown."""


@dataclass(frozen=True, slots=True)
class RunOverrides:
    """Options of the command line; they win over those in the file. None leaves the file's.

    ``sinks_into`` is for experiments on a pipeline: everything it writes goes below this directory, and it takes no
    checkpoints unless ``checkpoint_dir`` says where. ``generated_names``: the program does not change between its runs,
    so that the positions of operators serve where they have no names.
    """

    name: str | None = None
    parallelism: str | None = None
    executor: str | None = None
    task_managers: int | None = None
    transport: str | None = None
    address: str | None = None
    spread: bool | None = None
    pin: bool = False
    action_log: str | None = None
    config: str | None = None
    shed: str | None = None
    control: str | None = None
    scale: tuple[str, ...] = ()
    placement: str | None = None
    cores: float | None = None
    memory: str | None = None
    first_cores: float | None = None
    quota: str | None = None
    priority: int | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    attached: bool | None = None
    batch_rows: int | None = None
    checkpoint_dir: str | None = None
    checkpoint_interval: str | None = None
    max_failed_checkpoints: int | None = None
    start_timeout: str | None = None
    restore: str | None = None
    drop_state: tuple[str, ...] = ()
    accept_changed: tuple[str, ...] = ()
    accept_duplicates: bool = False
    dead_letters: str | None = None
    max_dead_letters: str | None = None
    sinks_into: str | None = None
    savepoint_on_stop: str | None = None
    metrics_port: int | None = None
    metrics_host: str | None = None
    metrics_token: str | None = None
    action_token: str | None = None
    at_end: str | None = None
    take_over: bool = False
    emit_interval: str | None = None
    generated_names: bool = False

    def __post_init__(self) -> None:
        """Refuse what no file can make possible.

        Raises:
            OptionError: one has an impossible value.
        """
        for option in ("emit_interval", "checkpoint_interval", "start_timeout"):
            if (duration := getattr(self, option)) is not None:
                to_microseconds(duration, f"--{option.replace('_', '-')}")
        if self.parallelism is not None:
            parallelism_option(self.parallelism)
        if self.max_dead_letters is not None:
            dead_letter_limit(self.max_dead_letters)
        if self.metrics_token is not None:
            check_reference(self.metrics_token)
        if self.action_token is not None:
            check_reference(self.action_token, "action_token")
        if self.shed is not None:
            check_shed(self.shed, "control: ")
        if self.scale:
            # Beside what the program and a file say more may be possible.
            said = self._control()
            with_control(None, {name: said[name] for name in ("scale", "placement", "cores", "memory", "parameters")})
        letter_target(self.dead_letters)
        check_at_end(self.at_end)

    def _control(self) -> dict[str, Any]:
        names = ("shed", "placement", "cores", "memory", "first_cores", "quota", "priority", "parameters")
        scale = self.scale[0] if len(self.scale) == 1 else self.scale
        return {name: getattr(self, name) for name in names} | {"mode": self.control, "scale": scale}

    def apply(self, options: RunOptions) -> RunOptions:
        """Return the options to run with.

        Raises:
            OptionError: one has an impossible value.
        """
        given = {name: value for name, value in asdict(self).items() if value is not None}
        restore = options.restore
        if self.restore is not None:
            restore = replace(restore_from(self.restore), allowed=restore.allowed)
        allowed = replace(
            restore.allowed,
            dropped=restore.allowed.dropped.union(self.drop_state),
            accepted=restore.allowed.accepted.union(self.accept_changed),
        )
        duplicates = self.accept_duplicates or options.restore.accept_duplicates
        limit = self.max_dead_letters
        changed = replace(
            options,
            loop=replace(options.loop, **changed_fields(LOOP, given)),
            parallelism=options.parallelism if self.parallelism is None else parallelism_option(self.parallelism),
            executor=self.executor or options.executor,
            pin=self.pin or options.pin,
            action_log=Path(self.action_log) if self.action_log else options.action_log,
            config=options.config if self.config is None else read_control_file(self.config),
            said=self._control(),
            checkpoints=replace(options.checkpoints, **changed_fields(CHECKPOINTS, given)),
            restarts=replace(options.restarts, **changed_fields(RESTARTS, given)),
            restore=replace(restore, allowed=allowed, accept_duplicates=duplicates),
            dead_letters=letter_target(self.dead_letters) or options.dead_letters,
            at_end=check_at_end(self.at_end) or options.at_end,
            max_dead_letters=options.max_dead_letters if limit is None else dead_letter_limit(limit),
            take_over=self.take_over or options.take_over,
            generated_names=self.generated_names,
            **{name: given[name] for name in ("name", *AS_THEY_ARE) if given.get(name, "") != ""},
        )
        changed.check_control()
        if self.sinks_into is None:
            return changed
        return replace(
            changed,
            directory=Path(self.sinks_into) / "job",
            checkpoints=replace(changed.checkpoints, directory=self.checkpoint_dir),
            savepoint_on_stop=self.savepoint_on_stop,
            metrics_port=self.metrics_port,
            action_token=self.action_token,
            dead_letters=None,
        )


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Result of a job: ``status`` is ``done`` or ``stopped``; rows at sources and at sinks.

    Of the task managers in ``missing`` the last figures are not in it.
    """

    job: str
    status: str
    seconds: float
    rows_in: int
    rows_out: int
    late: int
    dead_lettered: int
    shed: int
    shedding: SheddingStatus | None
    rows_per_s: float
    state_bytes: int
    operators: tuple[OperatorLine, ...]
    bad_records: tuple[BadRecordsLine, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _StartedJob:
    job: Job
    options: RunOptions
    embedded: RunningJob
    handle: Handle


class RunLauncher:
    """Runs every job of a program here and now, shows it, and prints what it did."""

    def __init__(self, overrides: RunOverrides, *, as_json: bool = False) -> None:
        """Print summaries as JSON lines on stdout, or as tables on stderr."""
        self.launches = 0
        self._started: list[_StartedJob] = []
        self._overrides = overrides
        self._as_json = as_json

    def launch(self, job: Job, options: RunOptions) -> JobMetrics:
        """Run to the end, or to a Ctrl-C, and print the summary."""
        self.launches += 1
        options = self._overrides.apply(options)
        with self._open(options) as endpoint, interrupts() as signals:
            try:
                embedded = self._embed(job, options, endpoint)
            except StartInterrupted:
                metrics = not_begun(options)
                self._print(summarise(job, metrics, stopped=True))
                return metrics
            serve(embedded, endpoint)
            signals.guard(embedded)
            with showing(options.name, enabled=self._shows(job)) as progress:
                embedded.run(progress)
        return self._report(job, embedded)

    def start(self, job: Job, options: RunOptions) -> Handle:
        """Start in the background; `finish` waits for the end."""
        self.launches += 1
        options = self._overrides.apply(options)
        endpoint = self._open(options)
        try:
            embedded = self._embed(job, options, endpoint)
        except BaseException:
            endpoint.close()
            raise
        handle = Handle(embedded, endpoint)
        self._started.append(_StartedJob(job, options, embedded, handle))
        return handle

    def finish(self) -> None:
        """Wait for what still runs in the background, or stop it on Ctrl-C; print summaries.

        Raises:
            PenstockError: one of the jobs failed.
        """
        if not self._started:
            return
        with interrupts() as signals:
            signals.guard(_JobGroup([item.embedded for item in self._started]))
            for item in self._started:
                with showing(item.options.name, enabled=self._shows(item.job)) as progress:
                    _wait(item.handle, progress)
                self._report(item.job, item.embedded)

    def _open(self, options: RunOptions) -> Endpoint:
        """Open the job's endpoint and say where it is."""
        endpoint = open_endpoint(options)
        if endpoint.url is not None:
            print(f"metrics at {endpoint.url}", file=sys.stderr)
        return endpoint

    def _embed(self, job: Job, options: RunOptions, endpoint: Endpoint) -> RunningJob:
        """Make a job ready; with JSON on stdout, sinks that print do so on stderr."""
        if self._overrides.sinks_into is not None:
            relocate(job, Path(self._overrides.sinks_into))
        with redirect_stdout(sys.stderr) if self._as_json else nullcontext():
            return make_ready(job, options, endpoint.tell)

    def _shows(self, job: Job) -> bool:
        """Return whether the line may be drawn: a job that prints its rows would garble it."""
        return watched() and not self._as_json and not _prints(job)

    def _report(self, job: Job, embedded: RunningJob) -> JobMetrics:
        metrics = embedded.metrics()
        self._print(summarise(job, metrics, stopped=not embedded.drained))
        return metrics

    def _print(self, summary: RunSummary) -> None:
        if self._as_json:
            print(json.dumps(asdict(summary)), flush=True)
            return
        sys.stdout.flush()
        print_summary(summary)


@dataclass(frozen=True, slots=True)
class _JobGroup:
    """Several jobs that run on threads of their own, as one that signals stop."""

    jobs: list[RunningJob]
    has_run: bool = True

    def stop(self, *, drain: bool = False) -> None:
        for job in self.jobs:
            job.stop(drain=drain)


def _wait(handle: Handle, progress: Progress | None) -> None:
    while handle.running:
        with suppress(TimeoutError):
            handle.wait(REPORT_S)
        if progress is not None:
            progress(handle.metrics())
    handle.wait()


def _prints(job: Job) -> bool:
    sinks = (node.spec.sink for node in job.graph.operators.values() if isinstance(node.spec, SinkSpec))
    return sys.stdout.isatty() and any(isinstance(sink, PrintSink) for sink in sinks)


def summarise(job: Job, metrics: JobMetrics, *, stopped: bool) -> RunSummary:
    """Add up what a job did."""
    sinks = {node.name for node in job.graph.operators.values() if isinstance(node.spec, SinkSpec)}
    seconds = metrics.elapsed_ns / 1e9
    return RunSummary(
        job=metrics.name,
        status="stopped" if stopped else "done",
        seconds=round(seconds, 6),
        rows_in=metrics.source_rows,
        rows_out=sum(line.rows_in for line in metrics.ledger.operators if line.operator in sinks),
        late=metrics.ledger.late,
        dead_lettered=metrics.ledger.dead_lettered,
        shed=metrics.ledger.shed,
        shedding=metrics.shedding,
        rows_per_s=round(metrics.source_rows / max(seconds, 1e-9), 1),
        state_bytes=metrics.state_bytes,
        operators=metrics.ledger.operators,
        bad_records=metrics.bad_records,
        missing=metrics.ledger.missing,
    )


def print_summary(summary: RunSummary) -> None:
    """Print the table that ends a run, to stderr, and what there is to say of bad records."""
    texts = {
        "rows in": count_text(summary.rows_in),
        "rows out": count_text(summary.rows_out),
        "late": count_text(summary.late),
        "dead letters": count_text(summary.dead_lettered),
        "time": seconds_text(summary.seconds),
        "rows/s": rate_text(summary.rows_per_s),
    }
    columns = [Column("job", figures=False), Column("", figures=False), *map(Column, texts)]
    print_table(columns, [[summary.job, summary.status, *texts.values()]])
    if summary.shedding is not None and summary.shed:
        print(f"SHED: the last keep rates: {summary.shedding.sentence()}", file=sys.stderr)
    for line in summary.bad_records:
        print(line.sentence(), file=sys.stderr)
    if summary.missing:
        lost = ", ".join(map(repr, summary.missing))
        print(
            f"FIGURES MISSING: lost once everything was committed: {lost}; of rows that were counted there in the last "
            "second or so these figures know nothing. The output is whole.",
            file=sys.stderr,
        )
