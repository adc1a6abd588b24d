"""Kills a pipeline again and again and compares what it has committed with an undisturbed run.

Everything is real: processes, SIGKILL, files (docs/design/fault-tests.md 1). Called by ``penstock chaos``, the tests
and ``make chaos``.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import psutil

from penstock.chaos.child import Child, Start, spawn
from penstock.chaos.compared_outputs import Difference, Outputs, Rows, difference
from penstock.chaos.experiment import COMMAND, ChaosError, ChaosOptions, ChaosReport
from penstock.chaos.moments import Moment, draw_moments
from penstock.chaos.ray_jobs import end_job, has_head_actor
from penstock.chaos.task_managers import actors_here, managers_of, outliving
from penstock.dsl.job import Job
from penstock.engine.core.failpoint_settings import EVERY_MANAGER, HEAD_ACTOR, VARIABLE, FailpointSetting
from penstock.engine.executors.simulation.timing_dependence import timing_dependent_sinks
from penstock.model.durations import to_microseconds
from penstock.model.errors import UserError
from penstock.model.job_graph import SinkSpec, SourceSpec
from penstock.runs.run_options import AUTO, EMBEDDED, RAY

BEGUN, COMPLETE = "job.restoring", "checkpoint.manifest.published"
JOINED = "manager.joined"
_PROVOKED = (
    FailpointSetting("checkpoint.uploading", 2, "raise"),
    FailpointSetting("instance.barrier.passed", 4, "raise"),
)
"""Failures that a process survives: points on the way out of them are passed only then."""
_SILENT = 10
"""By what the patience with a life grows that passes no point on its way."""

PATIENT_RUNS = 5
"""Number of runs that may end before they could be killed."""


Expected = Callable[[Path, Mapping[str, Any]], Mapping[str, Rows]]
"""Returns what each sink must have written in a run, by the run's directory and its summary."""


class Chaos:
    """One pipeline under attack. `run` is called once; it leaves the directories of all runs in ``folder``."""

    def __init__(
        self,
        file: Path,
        job: Job,
        options: ChaosOptions,
        folder: Path,
        start: Start = spawn,
        died: Callable[[str, Path], None] | None = None,
        outputs: Outputs | None = None,
        expected: Expected | None = None,
    ) -> None:
        """Check that the pipeline can be examined; ``job`` is what the file builds.

        After every death ``died`` gets the point (empty: a moment) and the run's directory, to do further damage.
        ``outputs`` says where runs write (by default files), ``expected`` what each sink must have written at the end
        of a run (by default what an undisturbed run writes).

        Raises:
            UserError: it has no end, or nothing it writes is promised.
        """
        nodes = list(job.graph.operators.values())
        endless = [node.name for node in nodes if isinstance(node.spec, SourceSpec) and not node.spec.source.bounded]
        if endless:
            raise UserError(f"chaos needs inputs that end, to have something to compare; {endless[0]!r} does not")
        self._graph = job.graph
        self._sinks = {node.name: node.spec for node in nodes if isinstance(node.spec, SinkSpec)}
        self._file, self._options, self._folder, self._start = file, options, folder, start
        self._rng = np.random.default_rng(options.seed)
        self._report = ChaosReport(options.seed, left_out=timing_dependent_sinks(job.graph))
        self._check_something_left()
        interval_s = to_microseconds(options.checkpoint_interval, "checkpoint_interval") / 1e6
        self._moments = draw_moments(options.kills, interval_s, self._rng)
        self._points = {name: int(self._rng.integers(1, 4)) for name in options.points}
        self._down_since: float | None = None
        self._goes_on = False
        self._script = list(reversed(options.script))
        self._died = died
        self._where = outputs or Outputs()
        self._expected = expected
        self._has_head_actor = options.executor == RAY and has_head_actor(job.graph)
        self._head = HEAD_ACTOR if self._has_head_actor else ""
        """The name by which the process that has the job says that it passes points."""
        self._token = token_hex(4)
        self._lives = 0
        self._hurried = 0
        self._lowered = False

    def run(self) -> ChaosReport:
        """Run once undisturbed, then until all kills are done; the report of a failure says what was done so far."""
        report = self._report
        try:
            expected = self._expected
            if expected is None:
                undisturbed = self._outputs(self._folder / "undisturbed", self._undisturbed())
                expected = partial(_always, undisturbed)
            while self._script or self._points or self._moments:
                self._disturbed(self._folder / f"run-{report.runs + 1}", expected)
        except ChaosError as failure:
            report.failure = str(failure)
        return report

    def _disturbed(self, folder: Path, expected_of: Expected) -> None:
        """Run to the end once, with kills on the way, and compare."""
        report = self._report
        kills = report.kills
        pending = 0 if self._script else len(self._points)
        folder.mkdir(parents=True)
        while (summary := self._live(folder)) is None:
            report.restarts += 1
        outputs, expected = self._outputs(folder, summary), expected_of(folder, summary)
        total = Difference()
        for name in outputs:
            total += difference(expected[name], outputs[name])
        report.runs += 1
        report.rows_in += summary["rows_in"]
        report.rows += total.rows
        report.lost += total.lost
        report.duplicated += total.duplicated
        self._adapt(pending, report.kills - kills)

    def _adapt(self, pending: int, kills: int) -> None:
        """Make it more likely that the next run is killed: in the last one so many kills were, so many points armed."""
        if pending and pending == len(self._points):
            self._lower_points()
        elif not kills:
            self._hurry()

    def _lower_points(self) -> None:
        """Nothing more is passed so often; be content with the first time, or give the points up."""
        if self._lowered:
            self._report.unreached = tuple(sorted(self._points))
            self._points.clear()
        else:
            self._points = dict.fromkeys(self._points, 1)
            self._lowered = True

    def _hurry(self) -> None:
        """A run ended before it could be killed: let the kills come sooner.

        Raises:
            ChaosError: that was tried.
        """
        self._hurried += 1
        if self._hurried > PATIENT_RUNS:
            raise ChaosError(
                "the pipeline ends before it can be killed: give it more input, or a shorter checkpoint interval"
            )
        self._moments = [replace(moment, delay_s=moment.delay_s / 4) for moment in self._moments]

    def _undisturbed(self) -> dict[str, Any]:
        folder = self._folder / "undisturbed"
        folder.mkdir(parents=True)
        child = self._begin(folder, ["--at-end=close", f"--executor={EMBEDDED}"], {VARIABLE: ""})
        return self._finished(child, folder, _SILENT * self._options.patience_s)

    def _live(self, folder: Path) -> dict[str, Any] | None:
        """Start once, kill or let finish; return the summary of a job that is done."""
        settings = self._script[-1:] or [FailpointSetting(name, nth) for name, nth in self._points.items()]
        if self._lowered and not self._script and settings:
            settings += _PROVOKED
        child = self._begin_life(folder, settings)
        try:
            if settings:
                died_at = self._watch(child, None)
                if died_at is not None:
                    self._strike(time.monotonic())
                    child.wait()
                    if self._script:
                        self._script.pop()
                    else:
                        del self._points[died_at]
                    self._report.points[died_at] = self._report.points.get(died_at, 0) + 1
                    self._killed(child, folder, died_at)
                    return None
            elif self._moments and self._until(child, self._moments[-1]):
                killed_at = time.monotonic()
                managers = self._managers(child)
                child.kill()
                if child.wait() < 0:
                    self._strike(killed_at)
                    if left := outliving(managers.values()):
                        raise ChaosError(f"task managers outlived the command: {', '.join(left)}")
                    self._report.after_checkpoint += self._moments.pop().after_checkpoint
                    self._killed(child, folder)
                    return None
            else:
                self._watch(child, None)
        except BaseException:
            self._give_up(child, folder)
            raise
        return self._finished(child, folder)

    def _managers(self, child: Child) -> dict[str, psutil.Process]:
        """Return the task managers of a life that run on this host; of those on Ray that have said something."""
        if self._options.executor != RAY:
            return managers_of(child.pid)
        return {name: process for name, process in actors_here(child.speakers).items() if name != HEAD_ACTOR}

    def _give_up(self, child: Child, folder: Path) -> None:
        """End a life that is not to go on; a job on Ray would outlive its command."""
        child.kill()
        child.wait()
        if self._has_head_actor:
            end_job(self._job_name(folder), self._options.address)

    def _job_name(self, folder: Path) -> str:
        """Return the name of a run's job on Ray: another one of the pipeline's own name may be there."""
        return f"chaos-{self._token}-{folder.name}"

    def _begin_life(
        self, folder: Path, settings: Sequence[FailpointSetting], environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start the command with checkpoints, and with failpoints that say what happens."""
        options = self._options
        arguments = [
            f"--checkpoint-dir={folder / 'checkpoints'}",
            f"--checkpoint-interval={options.checkpoint_interval}",
            "--restore=latest",
            "--at-end=close",
        ]
        for option, value in (
            ("executor", options.executor),
            ("task-managers", options.task_managers),
            ("transport", options.transport),
            ("address", options.address),
            ("name", self._job_name(folder) if options.executor == RAY else None),
        ):
            if value is not None:
                arguments.append(f"--{option}={value}")
        watched = [FailpointSetting(name, 1, "say", self._head) for name in (BEGUN, COMPLETE)]
        if options.executor != EMBEDDED:
            watched.append(FailpointSetting(JOINED, 1, "say", EVERY_MANAGER))
        if options.executor == RAY and not self._has_head_actor:
            arguments.append("--attached")
        armed = {VARIABLE: ",".join(map(str, (*watched, *settings)))}
        return self._begin(folder, arguments, armed | dict(environment or {}))

    def _strike(self, when: float) -> None:
        """What runs is down since then, until it goes on and completes a checkpoint."""
        self._down_since, self._goes_on = when, False

    def _killed(self, child: Child, folder: Path, point: str = "") -> None:
        self._report.count_kill(COMMAND)
        self._count_fallbacks(child)
        if self._died is not None:
            self._died(point, folder)

    def _count_fallbacks(self, child: Child) -> None:
        self._report.fallbacks += any(line.startswith("CHECKPOINTS SKIPPED") for line in child.said)

    def _until(self, child: Child, moment: Moment) -> bool:
        """Wait for the moment; return whether the process still runs then."""
        self._watch(child, COMPLETE if moment.after_checkpoint else BEGUN)
        due = time.monotonic() + moment.delay_s
        while not child.ended and time.monotonic() < due:
            self._note(child.next_point(due - time.monotonic()))
        return not child.ended

    def _watch(self, child: Child, point: str | None, patience_s: float | None = None) -> str | None:
        """Listen until a point is passed, or to the end; return the point at which the process killed itself.

        Raises:
            ChaosError: nothing happens for too long.
        """
        died_at = None
        while not child.ended:
            passed = self._listen(child, patience_s)
            if passed is not None and passed == point:
                return None
            if passed is not None and passed.endswith(" kill"):
                died_at = passed.removesuffix(" kill")
        return died_at

    def _listen(self, child: Child, patience_s: float | None = None) -> str | None:
        """Return the next point that is passed, None: the process has ended.

        Raises:
            ChaosError: nothing happens for too long.
        """
        patience_s = self._options.patience_s if patience_s is None else patience_s
        passed = self._note(child.next_point(patience_s))
        if passed is None and not child.ended:
            raise ChaosError(f"a life hangs: nothing happened for {patience_s:.0f} s")
        return passed

    def _note(self, passed: tuple[float, str] | None) -> str | None:
        if passed is None:
            return None
        when, point = passed
        point = point.removeprefix(f"{HEAD_ACTOR}/")
        if self._down_since is None or when < self._down_since:
            return point
        self._goes_on |= point == BEGUN
        if point == COMPLETE and self._goes_on:
            self._report.recoveries_s.append(when - self._down_since)
            self._down_since = None
        return point

    def _begin(self, folder: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> Child:
        options = self._options
        command = ["run", str(self._file), "--json", "--generated-names", *self._where.options(folder), *arguments]
        if options.parallelism:
            command.append(f"--parallelism={options.parallelism[self._lives % len(options.parallelism)]}")
        elif options.executor != EMBEDDED:
            command.append(f"--parallelism={AUTO}")
        if options.batch_rows is not None:
            command.append(f"--batch-rows={options.batch_rows}")
        self._lives += 1
        command += ["--", *options.arguments, *self._where.arguments(folder)]
        return self._start(command, environment, folder / "summary.json")

    def _finished(self, child: Child, folder: Path, patience_s: float | None = None) -> dict[str, Any]:
        """Wait for a job that is not killed, and return its summary.

        Raises:
            ChaosError: it failed.
        """
        try:
            self._watch(child, None, patience_s)
        except BaseException:
            self._give_up(child, folder)
            raise
        code = child.wait()
        summary = _summary(folder / "summary.json")
        if code != 0 or summary is None:
            output = "\n".join(child.said) or "it said nothing"
            raise ChaosError(f"a life that was not killed ended with {code}:\n{output}")
        self._count_fallbacks(child)
        self._down_since = None
        return summary

    def _outputs(self, folder: Path, summary: dict[str, Any]) -> dict[str, Rows]:
        """Return what the sinks wrote whose rows are promised.

        Raises:
            UserError: none are left, or the program is not the same in every run.
        """
        absent = sorted(self._sinks.keys() - {line["operator"] for line in summary["operators"]})
        if absent:
            raise UserError(
                f"the program changes from run to run: one had no sink {absent[0]!r}; build the same pipeline every "
                "time, or give operators names"
            )
        late = [line["operator"] for line in summary["operators"] if line["late"]]
        self._report.left_out |= timing_dependent_sinks(self._graph, late)
        self._check_something_left()
        return {
            name: self._where.read(folder, name, spec)
            for name, spec in self._sinks.items()
            if name not in self._report.left_out
        }

    def _check_something_left(self) -> None:
        if self._report.left_out.keys() >= self._sinks.keys():
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self._report.left_out.items())
            raise UserError(f"nothing that the pipeline writes is promised to be the same in every run ({reasons})")


def _always(rows: Mapping[str, Rows], folder: Path, summary: Mapping[str, Any]) -> Mapping[str, Rows]:
    """Return the same for every run."""
    return rows


def _summary(stdout: Path) -> dict[str, Any] | None:
    """Return the last JSON summary of ``penstock run --json``; the pipeline's own program may print around it."""
    for line in reversed(stdout.read_bytes().splitlines()):
        with suppress(ValueError):
            summary = json.loads(line)
            if isinstance(summary, dict) and {"job", "status", "operators"} <= summary.keys():
                return summary
    return None
