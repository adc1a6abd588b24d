"""A broker that goes and comes back, and jobs that wake up after another took over.

Real brokers, real processes, signals (docs/design/fault-tests.md K1, K2). Called by the tests with few of them, and by
``make chaos`` with many.
"""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np

from penstock.chaos.child import Child, Start
from penstock.chaos.compared_outputs import Rows, difference
from penstock.chaos.experiment import ChaosError, ChaosReport
from penstock.commands.loading import capture
from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.core.failpoint_settings import VARIABLE
from penstock.model.job_graph import SinkSpec
from tests.chaos.kafka_attacks import BATCH_ROWS, INTERVAL, PIPELINE, Events, kafka_lives, make_events
from tests.chaos.kafka_outputs import TopicOutputs, oracle_rows

QUERY, MODE = "q0", "append"
COMPLETE = "checkpoint.manifest.published"
PATIENCE_S = 120.0
LONGEST_MOMENT_S = 0.3
FENCED = "another run has taken over"


class _Lives:
    """Lives of the pipeline over the same events."""

    def __init__(self, folder: Path, events: Events, seed: int) -> None:
        self.report = ChaosReport(seed)
        self.rng = np.random.default_rng(seed)
        self.outputs = TopicOutputs(events.topic.bootstrap)
        self._folder, self._events = folder, events
        self._expected: Rows = oracle_rows(QUERY, events.directory)

    def folder(self) -> Path:
        """Make the directory of a new run."""
        folder = self._folder / f"run-{self.report.runs + 1}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def begin(self, start: Start, folder: Path, parallelism: int, name: str, *options: str) -> Child:
        """Start a life, which says when checkpoints are complete."""
        given = ["run", str(PIPELINE), "--json", f"--batch-rows={BATCH_ROWS}", f"--parallelism={parallelism}", *options]
        given += [f"--checkpoint-interval={INTERVAL}", *self.outputs.options(folder), "--"]
        given += [QUERY, MODE, self._events.topic.address, *self.outputs.arguments(folder)]
        return start(given, {VARIABLE: f"{COMPLETE}:1:say"}, folder / f"{name}.json")

    def some_time(self, longest_s: float = LONGEST_MOMENT_S) -> None:
        """Wait for a moment that the seed draws."""
        time.sleep(float(self.rng.random()) * longest_s)

    def finish(self, child: Child, folder: Path, name: str) -> None:
        """Let a life come to its end and compare what is committed.

        Raises:
            ChaosError: it failed, or hangs.
        """
        while not child.ended:
            _next(child)
        lines = (folder / f"{name}.json").read_bytes().splitlines()
        if child.wait() != 0 or not lines:
            raise ChaosError("a life failed:\n" + "\n".join(child.said))
        job, _ = capture(PIPELINE, (QUERY, MODE, self._events.topic.address, *self.outputs.arguments(folder)))
        (sink,) = (node.spec for node in job.graph.operators.values() if isinstance(node.spec, SinkSpec))
        found = difference(self._expected, self.outputs.read(folder, "out", sink))
        self.report.runs += 1
        self.report.rows_in += int(json.loads(lines[-1])["rows_in"])
        self.report.rows += found.rows
        self.report.lost += found.lost
        self.report.duplicated += found.duplicated


def broker_restarts(
    folder: Path, events: int, restarts: int, seed: int, down_s: tuple[float, float] = (5.0, 20.0)
) -> ChaosReport:
    """K1: stop or kill the broker while a job runs, and start it again so many seconds later; the job must go on.

    ``kills`` of the report are the restarts, ``recoveries_s`` the times from the broker's return to a checkpoint.
    """
    with LocalBroker(folder / "broker") as broker, kafka_lives(QUERY, MODE) as start:
        lives = _Lives(folder, make_events(broker.bootstrap, folder / "events", events), seed)
        try:
            while lives.report.kills < restarts:
                _run_beside(broker, lives, start, restarts, down_s)
        except ChaosError as failure:
            lives.report.failure = str(failure)
        return lives.report


def _run_beside(broker: LocalBroker, lives: _Lives, start: Start, restarts: int, down_s: tuple[float, float]) -> None:
    report, folder = lives.report, lives.folder()
    child = lives.begin(start, folder, 1 + report.runs % 3, "life")
    try:
        before = report.kills
        while report.kills < restarts and _next(child) is not None:
            lives.some_time()
            if report.kills % 2:
                broker.stop()
            else:
                broker.kill()
            time.sleep(float(lives.rng.uniform(*down_s)))
            broker.start()
            back = time.monotonic()
            report.kills += 1
            while (passed := _next(child)) is not None and passed < back:
                pass
            if passed is not None:
                report.recoveries_s.append(passed - back)
        if report.kills == before:
            raise ChaosError("the job ended before the broker could be stopped: give it more events")
        lives.finish(child, folder, "life")
    except BaseException:
        _end(child)
        raise


def zombies(folder: Path, bootstrap: str, events: int, count: int, seed: int) -> ChaosReport:
    """K2: a job that stands still is taken over by another start; when it goes on, it must be fenced and say so.

    ``kills`` of the report are the jobs that were fenced.
    """
    with kafka_lives(QUERY, MODE) as start, kafka_lives(QUERY, MODE) as start_again:
        lives = _Lives(folder, make_events(bootstrap, folder / "events", events), seed)
        try:
            while lives.report.kills < count:
                _take_over(lives, start, start_again)
        except ChaosError as failure:
            lives.report.failure = str(failure)
        finally:
            lives.outputs.close()
        return lives.report


def _take_over(lives: _Lives, start: Start, start_again: Start) -> None:
    report, folder = lives.report, lives.folder()
    zombie = lives.begin(start, folder, 1 + report.runs % 3, "zombie")
    children = [zombie]
    try:
        if _next(zombie) is None:
            raise ChaosError("a job ended before it could be stopped:\n" + "\n".join(zombie.said))
        lives.some_time()
        os.kill(zombie.pid, signal.SIGSTOP)
        heir = lives.begin(start_again, folder, 1 + (report.runs + 1) % 3, "heir", "--take-over")
        children.append(heir)
        _next(heir)
        os.kill(zombie.pid, signal.SIGCONT)
        lives.finish(heir, folder, "heir")
        while not zombie.ended:
            _next(zombie)
        if zombie.wait() == 0 or not any(FENCED in line for line in zombie.said):
            raise ChaosError("a job that was taken over did not say so:\n" + "\n".join(zombie.said))
        report.kills += 1
    except BaseException:
        for child in children:
            _end(child)
        raise


def _next(child: Child) -> float | None:
    """Wait for the next checkpoint and return when it was complete; None at the end.

    Raises:
        ChaosError: nothing happens for too long.
    """
    passed = child.next_point(PATIENCE_S)
    if passed is None and not child.ended:
        raise ChaosError(f"a life hangs: nothing happened for {PATIENCE_S:.0f} s:\n" + "\n".join(child.said))
    return None if passed is None else passed[0]


def _end(child: Child) -> None:
    if not child.ended:
        os.kill(child.pid, signal.SIGCONT)
        child.kill()
        child.wait()
