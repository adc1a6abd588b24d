"""Jobs that stay down longer than their transactions may take, which the broker ends meanwhile.

A real broker, real processes, SIGKILL (docs/design/fault-tests.md K3). Called by the tests with few jobs, and by ``make
chaos`` with many.
"""

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import numpy as np

from penstock.chaos.child import Start
from penstock.chaos.compared_outputs import Rows, difference
from penstock.chaos.experiment import ChaosError, ChaosReport
from penstock.commands.loading import capture
from penstock.engine.connectors.kafka.clients import make_admin
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topic_places import LATEST, TopicPlace, look_up
from penstock.engine.core.failpoint_settings import VARIABLE
from penstock.model.job_graph import SinkSpec
from tests.chaos.kafka_attacks import BATCH_ROWS, INTERVAL, PIPELINE, Events, kafka_lives, make_events
from tests.chaos.kafka_outputs import PARTITIONS, UNCOMMITTED, TopicOutputs, oracle_rows

QUERY, MODE = "q0", "append"
POINTS = ("kafka.transaction.delivered", "kafka.transaction.sent")
TIMEOUT_MS = 10_000
FREED_S = 60.0
CHECK_S = 10.0
"""How often a broker looks for transactions that take too long, unless it is told otherwise."""

AT_ONCE = 10
PATIENCE_S = 120.0
_LOOK_S = 0.1
_MARKERS_S = 1.0
_TRIES = 4


@dataclass(slots=True)
class _Job:
    """A job with a topic of its own; ``killed_s`` is when it died, by the monotonic clock."""

    folder: Path
    parallelism: int
    killed_s: float = 0.0
    lives: int = 0


class _Jobs:
    """Jobs over the same events, whose lives begin one after the other."""

    def __init__(self, folder: Path, events: Events, seed: int, start: Start) -> None:
        self.report = ChaosReport(seed)
        self.outputs = TopicOutputs(events.topic.bootstrap)
        self._rng = np.random.default_rng(seed)
        self._folder, self._events, self._start = folder, events, start
        self._expected: Rows = oracle_rows(QUERY, events.directory)
        bootstrap = events.topic.bootstrap
        self._committed = KafkaSettings(bootstrap)
        self._everything = KafkaSettings({"bootstrap.servers": bootstrap, "isolation.level": UNCOMMITTED})
        self._begun = 0
        self._admin = make_admin(self._committed, "penstock-chaos")

    def kill_one(self) -> _Job:
        """Begin a job and kill it while a transaction of its topic is open.

        Raises:
            ChaosError: jobs come to their end before that; or one failed, or hangs.
        """
        for later in reversed(range(_TRIES)):
            self._begun += 1
            job = _Job(self._folder / f"run-{self._begun}", 1 + self.report.kills % 3)
            job.folder.mkdir(parents=True)
            while self._kill(job, later):
                # The markers of the transactions before may still be under way.
                time.sleep(_MARKERS_S)
                if self.is_open(job):
                    self.report.kills += 1
                    return job
        raise ChaosError(f"{_TRIES} jobs came to their end without an open transaction: give them more events")

    def _kill(self, job: _Job, later: int) -> bool:
        """Let a job live until a transaction, at most so many later than the first; return whether it was killed."""
        # Every instance begins with a transaction of nothing but its marker.
        nth = job.parallelism + 1 + int(self._rng.integers(0, later + 1))
        code, said, _ = self._live(job, {VARIABLE: f"{POINTS[self.report.kills % len(POINTS)]}:{nth}:kill"})
        job.killed_s = time.monotonic()
        if code not in (0, -SIGKILL):
            raise ChaosError(f"a job failed before it was killed:\n{said}")
        return code != 0

    def await_freed(self, job: _Job) -> float:
        """Wait until the broker has ended the transaction of a job that is down; return the seconds since its death.

        Raises:
            ChaosError: it takes longer than it may.
        """
        while self.is_open(job):
            down_s = time.monotonic() - job.killed_s
            if down_s > FREED_S + CHECK_S:
                raise ChaosError(f"a transaction of a job that is down is still open after {down_s:.0f} s")
            time.sleep(_LOOK_S)
        return time.monotonic() - job.killed_s

    def finish(self, job: _Job) -> None:
        """Let a job go on to its end and compare what is committed.

        Raises:
            ChaosError: it failed, or hangs.
        """
        code, said, told = self._live(job, {})
        if code or not told:
            raise ChaosError(f"a job that was started again failed:\n{said}")
        arguments = self._arguments(job)
        captured, _ = capture(PIPELINE, arguments)
        (sink,) = (node.spec for node in captured.graph.operators.values() if isinstance(node.spec, SinkSpec))
        found = difference(self._expected, self.outputs.read(job.folder, "out", sink))
        self.report.restarts += 1
        self.report.runs += 1
        self.report.rows_in += int(json.loads(told[-1])["rows_in"])
        self.report.rows += found.rows
        self.report.lost += found.lost
        self.report.duplicated += found.duplicated

    def is_open(self, job: _Job) -> bool:
        """Return whether a transaction holds readers of committed messages up."""
        topic = self.outputs.topics[job.folder]
        ends = {f"{topic}/{number}": TopicPlace(name=LATEST) for number in range(PARTITIONS)}
        return look_up(self._admin, self._committed, ends) != look_up(self._admin, self._everything, ends)

    def _arguments(self, job: _Job) -> list[str]:
        arguments = [QUERY, MODE, self._events.topic.address, *self.outputs.arguments(job.folder)]
        return [*arguments, str(TIMEOUT_MS)]

    def _live(self, job: _Job, environment: dict[str, str]) -> tuple[int, str, list[bytes]]:
        """Let a job live until its end; return how it ended, and what it wrote to stderr and stdout."""
        job.lives += 1
        given = ["run", str(PIPELINE), "--json", f"--batch-rows={BATCH_ROWS}", f"--parallelism={job.parallelism}"]
        given += [f"--checkpoint-interval={INTERVAL}", *self.outputs.options(job.folder), "--", *self._arguments(job)]
        told = job.folder / f"life-{job.lives}.json"
        child = self._start(given, environment, told)
        until = time.monotonic() + PATIENCE_S
        try:
            while not child.ended:
                if child.next_point(PATIENCE_S) is None and not child.ended and time.monotonic() > until:
                    raise ChaosError(f"a life hangs: nothing happened for {PATIENCE_S:.0f} s")
        except BaseException:
            child.kill()
            child.wait()
            raise
        return child.wait(), "\n".join(child.said), told.read_bytes().splitlines()


def timed_out_transactions(folder: Path, bootstrap: str, events: int, count: int, seed: int) -> ChaosReport:
    """K3: kill jobs in a transaction, and start them again when the broker has given it up.

    ``kills`` of the report are the jobs, ``recoveries_s`` the times from a kill until readers of committed messages
    were no longer held up by the transaction.
    """
    with kafka_lives(QUERY, MODE) as start:
        jobs = _Jobs(folder, make_events(bootstrap, folder / "events", events), seed, start)
        try:
            while jobs.report.kills < count:
                _time_out(jobs, min(AT_ONCE, count - jobs.report.kills))
        except ChaosError as failure:
            jobs.report.failure = str(failure)
        finally:
            jobs.outputs.close()
        return jobs.report


def _time_out(jobs: _Jobs, count: int) -> None:
    """Let so many jobs be down at the same time."""
    with ThreadPoolExecutor(count) as threads:
        freed: list[tuple[_Job, Future[float]]] = []
        for _ in range(count):
            job = jobs.kill_one()
            # Each is watched from its death on, while the next ones have yet to die.
            freed.append((job, threads.submit(jobs.await_freed, job)))
        jobs.report.recoveries_s += [future.result() for _, future in freed]
    for job, _ in freed:
        jobs.finish(job)
