"""Rows sent, steps, checkpoints, crashes, rescales and restores in any order: the output is a dictionary's (M1)."""

import os
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import penstock as ps
from penstock import count, sum_
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.checkpoint.writer import CutWriter, ManifestMaker
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.executors.simulated import memory_state
from penstock.engine.executors.simulation.attempt import SimulatedAttempt
from penstock.engine.executors.simulation.faults import Faults
from penstock.engine.executors.simulation.outputs import standing
from penstock.engine.executors.simulation.staged_sink import StagedSink
from penstock.engine.executors.simulation.world import World
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.plan.planner import plan
from penstock.engine.restore.restorer import begin_from, recover_sinks
from penstock.model.config import CheckpointOptions, LoopOptions
from penstock.model.connectors import ENDED, NOTHING, Read, Reader, Source
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import SinkSpec, SourceSpec
from penstock.model.schema import to_arrow_schema
from tests.papers_cases import cases

EXAMPLES = int(os.environ.get("PENSTOCK_MACHINE_EXAMPLES", cases(500)))
STEPS = 50
SCHEMA = to_arrow_schema({"key": "int64", "value": "int64"})
LOOP = LoopOptions(batch_rows=4, channel_bytes=256, key_groups=8)


class Growing(Source):
    """Two partitions of rows that come while the job runs, until `ended`."""

    def __init__(self):
        self.rows = ([], [])
        self.ended = False

    @property
    def schema(self):
        return SCHEMA

    def partitions(self, parallelism):
        return ["0", "1"]

    def open(self, partition, position):
        return GrowingReader(self, self.rows[int(partition)], position or 0)

    def restrict(self, columns, predicate):
        return self


class GrowingReader(Reader):
    def __init__(self, source, rows, row):
        self.source, self.rows, self.row = source, rows, row

    def read(self, max_rows):
        some = self.rows[self.row : self.row + max_rows]
        self.row += len(some)
        if some:
            return Read(pa.RecordBatch.from_pylist(some, SCHEMA))
        return ENDED if self.source.ended else NOTHING

    def position(self):
        return self.row


@cache
def planned(parallelism: int) -> ExecutionGraph:
    """Return the plan for a parallelism, made once: source and sink are put in for every attempt."""
    job = ps.Job()
    stream = ps.read(Growing(), job=job).name("rows")
    stream.key_by("key").agg(n=count(), total=sum_("value")).name("counts").collect().name("out")
    return plan(job.graph, parallelism)


class Machine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 30), parallelism=st.integers(1, 3))
    def begin(self, seed, parallelism):
        self.source = Growing()
        self.world = World(seed, Faults(crash=False, disk=False), memory_state, None, 1_000, 1_000_000)
        self.schema = None
        self.parallelism = parallelism
        self.process()

    @rule(rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=8))
    def send(self, rows):
        for key, value in rows:
            self.source.rows[(key + value) % 2].append({"key": key, "value": value})

    @rule(turns=st.integers(1, 60))
    def step(self, turns):
        for _ in range(turns):
            assert self.attempt.turn()

    @rule()
    def checkpoint(self):
        assert self.attempt
        self.session.request()

    @rule(turns=st.integers(1, 200))
    def complete_a_checkpoint(self, turns):
        assert self.attempt
        before = self.session.statistics().committed
        self.session.request()
        while self.session.statistics().committed == before and turns:
            assert self.attempt.turn()
            turns -= 1

    @rule()
    def crash(self):
        self.world.checkpoints.crash()
        self.world.outputs.crash()
        self.process()

    @rule(parallelism=st.integers(1, 4))
    def rescale(self, parallelism):
        self.parallelism = parallelism
        self.crash()

    @rule()
    def restore(self):
        """A worker is lost: the process goes on, the attempt does not."""
        self.session.failed("a worker is lost")
        while not self.session.halted():
            self.session.turn()
            self.world.pause(0.01)
        self.begun = None

    def teardown(self):
        if not hasattr(self, "source"):
            return
        self.source.ended = True
        while self.attempt.turn():
            pass
        sent = [row for rows in self.source.rows for row in rows]
        counts, totals = Counter(row["key"] for row in sent), Counter()
        for row in sent:
            totals[row["key"]] += row["value"]
        rows = self.sink.committed()
        found = [] if rows is None else standing(rows, self.spec).to_pylist()
        expected = [{"key": key, "n": counts[key], "total": totals[key]} for key in sorted(counts)]
        assert sorted(found, key=lambda row: row["key"]) == expected

    def process(self):
        self.world.restart()
        options = CheckpointOptions(interval_ms=1_000_000, directory="disk")
        manifests = ManifestMaker("machine", LOOP.key_groups, "0", self.world.clock.wall_us)
        self.session = CheckpointSession(
            CheckpointCoordinator(options), self.world.repository, manifests, self.world.background, self.world.clock
        )
        self.number = 0
        self.begun = None

    @property
    def attempt(self):
        """The attempt that runs; made when it is needed, for most of the time goes into making it."""
        if self.begun is None:
            self.begin_attempt()
        return self.begun

    def begin_attempt(self):
        graph = self.bound(planned(self.parallelism))
        loaded = self.world.repository.latest()
        restored = None
        if loaded is not None:
            restored = begin_from(loaded, self.world.repository, graph, LOOP.key_groups, Path("unused"))
        recover_sinks(graph, restored)
        self.number += 1
        self.begun = SimulatedAttempt(
            self.world,
            JobPlan("machine", graph, LOOP, Path("unused")),
            AttemptContext(self.world.clock, self.session, CutWriter(self.world.repository, Path("unused"))),
            AttemptStart(self.number, restored, self.session.last_epoch()),
        )
        self.schema = self.sink.schema

    def bound(self, graph):
        self.sink = StagedSink("out", self.world.files)
        self.sink.schema = self.schema
        operators = dict(graph.graph.operators)
        for key, node in operators.items():
            if isinstance(node.spec, SinkSpec):
                self.spec = node.spec
                operators[key] = replace(node, spec=replace(node.spec, sink=self.sink))
            elif isinstance(node.spec, SourceSpec):
                operators[key] = replace(node, spec=replace(node.spec, source=self.source))
        return replace(graph, graph=replace(graph.graph, operators=operators))


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=EXAMPLES, stateful_step_count=STEPS)
