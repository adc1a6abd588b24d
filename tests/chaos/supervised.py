"""A Kafka job under a supervisor that sends SIGTERM, waits 10 s, and kills: restarted through faults, again and again.

``python -m tests.chaos.supervised --rounds 50 --seed 0``; Linux, with the right to mount (as root, or in
a user namespace). The promise of every round: the job runs on and commits again, or it ends within 10 s with a sentence
that says what to do. In the end every window is in the output topic once, with the right figures.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.chaos.child import Child, spawn
from penstock.chaos.compared_outputs import difference
from penstock.dev.kafka_broker import LocalBroker
from penstock.dsl.job import Job
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.core.failpoint_settings import VARIABLE
from penstock.tables import Column, print_table
from tests.chaos.kafka_outputs import KEEP, committed_messages
from tests.chaos.supervised_faults import FAULTS, ON_SMALL_DISK
from tests.chaos.supervised_places import SmallDisk, in_own_namespace
from tests.chaos.supervised_values import (
    KEYS,
    WINDOW_S,
    Round,
    TrialReport,
    event_time,
    expected_rows,
    messages,
    written_rows,
)

PIPELINE = Path(__file__).with_name("supervised_pipeline.py")
COMMIT = "checkpoint.after_commit"
PATIENCE_S = 60.0
TERM_S = 10.0
PARTITIONS = 2
FED = 500
"""Messages between two rounds."""


class Trial:
    """One job, its broker, its disk, and the supervisor. Faults act on it and report a `Round` each."""

    def __init__(self, folder: Path, broker: LocalBroker, disk: SmallDisk) -> None:
        """Create the topics; the job does not run yet."""
        self.folder, self.broker, self.disk = folder, broker, disk
        self.child: Child | None = None
        self._fed = 0
        self._lives: list[Child] = []
        settings = KafkaSettings(broker.bootstrap)
        for topic in ("read", "written"):
            create_topic(settings, topic, PARTITIONS, KEEP)

    def feed(self, count: int = FED) -> None:
        """Write the next messages to the topic that the job reads."""
        self._write(messages(self._fed, self._fed + count))
        self._fed += count

    def start(self, *options: str, window: str = f"{WINDOW_S}s", checkpoints: Path | None = None) -> Child:
        """Start a life of the job, which is not necessarily the one that counts."""
        where = self.disk.folder / "state" if checkpoints is None else checkpoints
        given = [f"--checkpoint-dir={where}", "--checkpoint-interval=300ms", *options]
        arguments = [self.broker.bootstrap, "read", "written", window, str(self.folder / "job")]
        summary = self.folder / f"summary-{len(self._lives)}.json"
        life = spawn(["run", str(PIPELINE), "--json", *given, *arguments], {VARIABLE: f"{COMMIT}:1:say"}, summary)
        self._lives.append(life)
        return life

    def run_on(self) -> Child:
        """Return the job, started if it does not run, with a checkpoint committed.

        Raises:
            TimeoutError: it does not commit, or ends.
        """
        if self.child is None:
            self.child = self.start()
        self.feed()
        if not commits(self.child):
            raise TimeoutError("\n".join(["the job does not commit:", *self.child.said]))
        return self.child

    def end(self) -> None:
        """End the job as the supervisor does; nothing if it does not run."""
        if self.child is not None:
            os.kill(self.child.pid, signal.SIGTERM)
            if not ends(self.child, TERM_S):
                self.child.kill()
            self.child.wait()
            self.child = None

    def close(self) -> None:
        """Kill whatever life still runs."""
        for life in self._lives:
            if not life.ended:
                with suppress(ProcessLookupError):
                    life.kill()
                life.wait()

    def compare(self, report: TrialReport) -> None:
        """Close all windows by messages of the next day, wait for their rows, and compare."""
        job = self.run_on()
        late = self._fed + 24 * 3_600 * 1_000 // 50
        self._write([{**row, "at": event_time(late)} for row in messages(self._fed, self._fed + 4 * KEYS)])
        expected = expected_rows(range(self._fed))
        until = time.monotonic() + PATIENCE_S
        while True:
            commits(job)
            pairs = committed_messages(KafkaSettings(self.broker.bootstrap), "written", PARTITIONS)
            found = written_rows([value for _, value in pairs if value is not None])
            if found.total() >= expected.total() or time.monotonic() > until:
                break
        self.end()
        said = difference(expected, found)
        report.rows, report.lost, report.duplicated = said.rows, said.lost, said.duplicated

    def _write(self, rows: Sequence[dict[str, Any]]) -> None:
        job = Job()
        ps.read_memory(rows, job=job).write_kafka("read", kafka=self.broker.bootstrap, key="key")
        job.run("feed", directory=self.folder / "feed")


def commits(child: Child, patience_s: float = PATIENCE_S) -> bool:
    """Whether a process commits a checkpoint from now on, in time; False also if it ends."""
    while child.next_point(0.0) is not None:
        pass
    until = time.monotonic() + patience_s
    return not child.ended and child.next_point(until - time.monotonic()) is not None


def ends(child: Child, patience_s: float) -> bool:
    """Whether a process ends in time, however many checkpoints it commits before."""
    until = time.monotonic() + patience_s
    while not child.ended and time.monotonic() < until:
        child.next_point(until - time.monotonic())
    return child.ended


def supervise(folder: Path, rounds: int, seed: int, names: Sequence[str] = ()) -> TrialReport:
    """Let every fault (or those named) come in seeded order, as often as ``rounds`` allow."""
    rng = np.random.default_rng(seed)
    chosen = {name: fault for name, fault in FAULTS.items() if not names or name in names}
    order = [name for _ in range(-(-rounds // len(chosen))) for name in rng.permutation(list(chosen))][:rounds]
    report = TrialReport()
    disk = SmallDisk(folder / "disk")
    mounted = disk if ON_SMALL_DISK.intersection(chosen) else nullcontext()
    with LocalBroker(folder / "broker") as broker, mounted:
        trial = Trial(folder, broker, disk)
        try:
            for number, name in enumerate(order, 1):
                try:
                    one = chosen[name](trial)
                except TimeoutError as error:
                    report.rounds.append(Round(name, "stuck", PATIENCE_S, wrong=str(error)))
                    return report
                report.rounds.append(one)
                verdict = one.wrong or one.outcome
                print(
                    f"{number}/{rounds} {name}: {verdict}, {one.seconds:.1f} s. {one.said}", file=sys.stderr, flush=True
                )
            trial.compare(report)
        finally:
            trial.close()
    return report


def main() -> int:
    """Run a trial and print its table; 1 if a promise was broken."""
    in_own_namespace("tests.chaos.supervised", sys.argv[1:])
    parser = argparse.ArgumentParser(description="Restart a Kafka job through faults, and compare its output.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", default="", help="only these, with commas: " + ", ".join(FAULTS))
    given = parser.parse_args()
    names = [name for name in given.faults.split(",") if name]
    with tempfile.TemporaryDirectory(prefix="penstock-supervised-") as folder:
        report = supervise(Path(folder), given.rounds, given.seed, names)
    _print(report)
    return 0 if report.kept else 1


def _print(report: TrialReport) -> None:
    columns = [Column("fault", figures=False), Column("rounds"), Column("ran on"), Column("slowest end, s")]
    lines = []
    for name in dict.fromkeys(one.fault for one in report.rounds):
        mine = [one for one in report.rounds if one.fault == name]
        ended = [one.seconds for one in mine if one.outcome == "ended"]
        ran_on = sum(one.outcome == "ran on" for one in mine)
        lines.append([name, str(len(mine)), str(ran_on), f"{max(ended):.1f}" if ended else ""])
    print_table(columns, lines, title="A job under a supervisor", stream=sys.stdout)
    for one in report.rounds:
        if one.wrong:
            print(f"{one.fault}: {one.wrong} {one.said}")
    print(f"{report.rows} rows, {report.lost} lost, {report.duplicated} duplicated")


if __name__ == "__main__":
    sys.exit(main())
