"""Nexmark queries from a topic to a topic, killed again and again: exactly once, end to end.

Everything is real: a broker, processes, SIGKILL (docs/design/fault-tests.md R1, R3). Called by the tests with few
kills, and by ``make chaos`` with many.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

import numpy as np

from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.benchmarks.nexmark.topic import EventTopic, fill
from penstock.chaos.child import Start
from penstock.chaos.compared_outputs import Rows
from penstock.chaos.experiment import ChaosOptions, ChaosReport
from penstock.chaos.head_trials import chaos_of
from penstock.commands.loading import capture
from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.core.failpoint_settings import FailpointSetting
from tests.chaos.fork_server import ForkServer
from tests.chaos.kafka_outputs import TopicOutputs, oracle_rows

PIPELINE = Path(__file__).with_name("kafka_pipeline.py")
INTERVAL = "50ms"
BATCH_ROWS = 1_024
RESCALED = (2, 3, 1)
RATE_PER_S = 1_000.0
VARIABLE = "KAFKA_BOOTSTRAP"

COMMITTING = (
    "checkpoint.manifest.published",
    "checkpoint.before_commit",
    "kafka.transaction.before",
    "kafka.transaction.delivered",
    "kafka.transaction.sent",
    "kafka.transaction.committed",
    "kafka.kept.before_delete",
    "kafka.kept.deleted",
    "checkpoint.between_commits",
    "checkpoint.after_commit",
)
RECOVERING = ("kafka.id.opened", "kafka.recover.taken", "kafka.recover.settled")


@dataclass(frozen=True, slots=True)
class Events:
    """The same events as a topic and as Parquet files."""

    topic: EventTopic
    directory: Path


def make_events(bootstrap: str, folder: Path, events: int) -> Events:
    """Write them."""
    config = NexmarkConfig(events, rate_per_s=RATE_PER_S)
    topic = EventTopic(bootstrap, f"events-{token_hex(4)}")
    fill(topic, config)
    write_dataset(folder, config)
    return Events(topic, folder)


class KafkaAttacker:
    """Attacks one query over the same events; every attack has its own directory below ``folder``."""

    def __init__(self, folder: Path, start: Start, events: Events, query: str, mode: str) -> None:
        """Every life of the job comes from ``start``."""
        self._folder, self._start = folder, start
        self._events, self._query, self._mode = events, query, mode
        self._expected: Rows = oracle_rows(query, events.directory)
        self._attacks = 0

    def moments(self, kills: int, seed: int) -> ChaosReport:
        """R1: at seeded moments."""
        return self._run(ChaosOptions(kills, seed))

    def task_managers(self, kills: int, seed: int) -> ChaosReport:
        """R4: task managers at seeded moments."""
        return self._run(ChaosOptions(kills, seed, executor="processes", task_managers=2))

    def stops(self, stops: int, seed: int, stopped_s: tuple[float, float]) -> ChaosReport:
        """R6: task managers at seeded moments, each stopped for a time between these two, in seconds."""
        return self._run(ChaosOptions(stops, seed, executor="processes", task_managers=2, stopped_s=stopped_s))

    def commands(self, kills: int, seed: int) -> ChaosReport:
        """R5: the command, which has task managers, at seeded moments."""
        return self._run(ChaosOptions(kills, seed, executor="processes", task_managers=2, kill_head=True))

    def on_ray(self, kills: int, seed: int, address: str, *, kill_head: bool) -> ChaosReport:
        """R4, R5: task managers on a Ray cluster, or head actors, at seeded moments."""
        options = ChaosOptions(kills, seed, executor="ray", task_managers=2, address=address, kill_head=kill_head)
        return self._run(options)

    def before_commit(self, kills: int, seed: int) -> ChaosReport:
        """R3: between the end of a checkpoint and the commit of its output, during that, and in settling it after."""
        rng = np.random.default_rng(seed)
        script: list[FailpointSetting] = []
        while len(script) < kills:
            name = COMMITTING[len(script) % len(COMMITTING)]
            script.append(FailpointSetting(name, int(rng.integers(1, 4))))
            if name == COMMITTING[-1]:
                script.append(FailpointSetting(str(rng.choice(RECOVERING)), 1))
        return self._run(ChaosOptions(0, seed, script=tuple(script[:kills])))

    def _run(self, options: ChaosOptions) -> ChaosReport:
        outputs = TopicOutputs(self._events.topic.bootstrap)
        arguments = (self._query, self._mode, self._events.topic.address)
        self._attacks += 1
        folder = self._folder / f"{self._query}-{self._mode}-{self._attacks}"
        options = replace(
            options,
            checkpoint_interval=INTERVAL,
            parallelism=RESCALED,
            arguments=arguments,
            batch_rows=BATCH_ROWS,
        )
        job, _ = capture(PIPELINE, (*arguments, "out", str(folder)))
        try:
            trials = chaos_of(options, job.graph)
            return trials(
                PIPELINE,
                job,
                options,
                folder,
                self._start,
                outputs=outputs,
                expected=lambda folder, summary: {"out": self._expected},
            ).run()
        finally:
            outputs.close()


@contextmanager
def kafka_lives(query: str, mode: str) -> Iterator[Start]:
    """Yield what starts lives of the pipeline, with the query's kernels loaded."""
    with ForkServer(PIPELINE, [query, mode, "20000", "out", "."]) as server:
        yield server.start


@contextmanager
def some_broker(folder: Path) -> Iterator[str]:
    """Yield the address of the broker that ``KAFKA_BOOTSTRAP`` names, or of one that runs meanwhile."""
    other = os.environ.get(VARIABLE)
    if other:
        yield other
        return
    with LocalBroker(folder / "broker") as broker:
        yield broker.bootstrap


def nexmark_kills(folder: Path, query: str, mode: str, events: int, kills: int, seed: int) -> ChaosReport:
    """Attack a query on a broker of its own."""
    with some_broker(folder) as bootstrap, kafka_lives(query, mode) as start:
        made = make_events(bootstrap, folder / "events", events)
        return KafkaAttacker(folder, start, made, query, mode).moments(kills, seed)


def commit_crashes(folder: Path, events: int, kills: int, seed: int) -> ChaosReport:
    """Attack the commits of a query that passes every bid on."""
    with some_broker(folder) as bootstrap, kafka_lives("q0", "append") as start:
        made = make_events(bootstrap, folder / "events", events)
        return KafkaAttacker(folder, start, made, "q0", "append").before_commit(kills, seed)
