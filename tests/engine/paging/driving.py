"""A keyed operator in a test's hands as the chain holds it: plain, or paged in instances that stop and go on."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.checkpoint.writer import CutWriter, ManifestMaker
from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import LATE, MAIN, Operator, OperatorContext, RowCounters
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.dataflow.chain import ChainNode
from penstock.engine.dataflow.cut import InstanceCut, cut_operator
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.key_groups import assign, key_groups_at
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.local_files import LocalFiles
from penstock.state.stores.memory_store import MemoryStore
from tests.engine.paging.kinds import Kind, plain
from tests.engine.paging.shelves import Shelves
from tests.engine.restarts import locate_by
from tests.engine.support import Rejected

KEY_GROUPS = 16


def tiny(kind: Kind) -> PagingOptions:
    """Return what forces an operator to cut, evict and sweep for a few hundred rows: what it takes empty."""
    operator = kind.make()
    operator.open(context_of(ManualClock(), RowCounters(), kind))
    empty_bytes = max(operator.context.state.bytes_used(), 800)
    return PagingOptions((1 << 20) + 2 * empty_bytes, empty_bytes * 5 // 4, empty_bytes * 9 // 8, row_bytes=6_000)


@dataclass
class Results:
    """What came out: rows with their weights, late rows, the account of rows, and rows older than a watermark."""

    rows: Counter[Any] = field(default_factory=Counter)
    late: Counter[Any] = field(default_factory=Counter)
    counters: RowCounters = field(default_factory=RowCounters)
    early: int = 0

    def copy(self) -> "Results":
        return Results(self.rows.copy(), self.late.copy(), replace(self.counters), self.early)


class Driven:
    """One instance of an operator and the watermark that it has passed on."""

    def __init__(self, operator: Operator, kind: Kind, results: Results) -> None:
        self.operator = operator
        self.passed_us = START_OF_TIME_US
        self._kind = kind
        self._results = results

    def process(self, port: int, batch: pa.RecordBatch) -> None:
        for part in self._kind.parts(batch):
            self._take(self.operator.process(port, part))

    def watermark(self, time_us: int) -> None:
        self._take(self.operator.on_watermark(time_us))
        self._pass(self.operator.output_watermark(time_us))

    def timers(self, *, idle: bool = False) -> None:
        """Do as the chain does before each step."""
        now_ns = self.operator.context.clock.monotonic_ns()
        due_ns = self.operator.timer_ns()
        if (due_ns is not None and due_ns <= now_ns) or (idle and self.operator.has_pending()):
            self._take(self.operator.on_timer(now_ns))
            self._pass(self.operator.released_watermark())

    def barrier(self, epoch: int) -> None:
        self._take(self.operator.on_barrier(epoch))
        assert not self.operator.has_pending()

    def end(self) -> None:
        self.watermark(END_OF_TIME_US)
        while self.operator.unanswered():
            self.timers()
        self._take(self.operator.on_end())
        self._pass(END_OF_TIME_US)
        assert self.operator.output_watermark(END_OF_TIME_US) == END_OF_TIME_US

    def _pass(self, time_us: int | None) -> None:
        if time_us is not None:
            self.passed_us = max(self.passed_us, time_us)

    def _take(self, emissions: Iterable[Any]) -> None:
        for output, batch in emissions:
            if output == MAIN:
                self._results.rows.update(plain(batch.rows))
                if self._kind.time is not None:
                    times = batch.rows.column(self._kind.time).cast(pa.int64()).to_numpy()
                    self._results.early += int(
                        np.count_nonzero(times - (self._kind.time == "window_end") < self.passed_us)
                    )
            else:
                assert output.startswith(LATE), output
                self._results.late.update(plain(batch.rows))


def context_of(clock: ManualClock, counters: RowCounters, kind: Kind, **options: Any) -> OperatorContext:
    """Return the context of the only instance, whose store is in memory."""
    context = OperatorContext(
        name="op",
        instance=0,
        parallelism=1,
        clock=clock,
        state=MemoryStore("op"),
        counters=counters,
        dead_letters=Rejected(),
        key_groups=assign(KEY_GROUPS, 1),
        batch_rows=50,
        seed=0,
        locate=(locate_by("k"),) * len(kind.inputs),
    )
    return replace(context, **options)


class Plain:
    """The operator as it is; it knows nothing of restarts."""

    def __init__(self, kind: Kind, clock: ManualClock) -> None:
        self.results = Results()
        operator = kind.make()
        operator.open(context_of(clock, self.results.counters, kind))
        self.instances = [Driven(operator, kind, self.results)]

    def process(self, port: int, rows: pa.RecordBatch) -> None:
        self.instances[0].process(port, rows)


class Paged:
    """The operator over buckets, in as many instances as `restart` says; rows go to them by their key."""

    def __init__(
        self,
        kind: Kind,
        clock: ManualClock,
        directory: Path,
        shelves: Shelves | None = None,
        options: PagingOptions | None = None,
    ) -> None:
        self.results = Results()
        self.shelves = shelves or Shelves()
        self.options = options or tiny(kind)
        self._kind = kind
        self._clock = clock
        self._directory = directory
        self._epoch = 0
        self._repository = CheckpointRepository(LocalFiles(directory / "checkpoints"))
        self._cuts: list[InstanceCut] = []
        self.uploaded = False
        self._saved = Results()
        self._open(1, None)

    @property
    def operators(self) -> list[PagedOperator]:
        return [item.operator for item in self.instances if isinstance(item.operator, PagedOperator)]

    def process(self, port: int, rows: pa.RecordBatch) -> None:
        owners = self._owners[key_groups_at(locate_by("k")(rows), KEY_GROUPS)]
        for index, driven in enumerate(self.instances):
            mine = rows.filter(pa.array(owners == index))
            if mine.num_rows:
                while not driven.operator.has_room():
                    self.upload()
                    driven.timers()
                driven.process(port, mine)

    def barrier(self) -> None:
        """Begin a checkpoint; buckets may be frozen until `upload` or `give_up`."""
        self.give_up()
        self.uploaded = False
        self._epoch += 1
        for driven in self.instances:
            driven.barrier(self._epoch)
        assert self.results.counters.balanced()
        self._saved = self.results.copy()
        self._cuts = [
            InstanceCut(f"op[{index}]", self._epoch, (cut_operator(self._node(driven), index, self._epoch, None),))
            for index, driven in enumerate(self.instances)
        ]

    def give_up(self) -> None:
        """Forget the checkpoint that is under way."""
        for cut in self._cuts:
            cut.release()
        self._cuts = []

    def upload(self) -> None:
        """Finish the checkpoint that is under way."""
        if not self._cuts:
            return
        contribution = CutWriter(self._repository, self._directory / "uploads").upload(self._epoch, self._cuts)
        manifests = ManifestMaker("job", KEY_GROUPS, "1", lambda: 0)
        self._repository.publish(manifests.make(self._epoch, [contribution], {}))
        self._cuts, self.uploaded = [], True

    def restart(self, parallelism: int) -> None:
        """Lose everything since the last barrier, and go on from its checkpoint, which must have been uploaded."""
        for driven in self.instances:
            driven.operator.abort()
        loaded = self._repository.load(self._epoch)
        restored = RestoredState(loaded, self._repository.contents(), self._directory / "fetched", self.shelves)
        self.results = self._saved.copy()
        self._open(parallelism, restored)
        restored.close()

    def check_budget(self) -> None:
        """No instance holds more than its budget and one bucket."""
        for operator in self.operators:
            stores = operator._stores
            limit = stores.options.held_bytes
            sizes = sorted(bucket.bytes for bucket in stores.buckets)
            assert limit is None or stores.frozen() or sum(sizes[:-1]) <= max(limit, 0), (sizes, limit)

    def _open(self, parallelism: int, restored: RestoredState | None) -> None:
        self._owners = assign(KEY_GROUPS, parallelism)
        self.instances = []
        for index in range(parallelism):
            start = None if restored is None else restored.paged_start_of("op", index, self._owners)
            sources = () if start is None else start.sources
            operator = PagedOperator(self._kind.make, self.options, self.shelves.open, sources)
            operator.open(
                context_of(
                    self._clock,
                    self.results.counters,
                    self._kind,
                    instance=index,
                    parallelism=parallelism,
                    key_groups=self._owners,
                    restored=() if start is None else start.notes,
                )
            )
            self.instances.append(Driven(operator, self._kind, self.results))

    def _node(self, driven: Driven) -> ChainNode:
        return ChainNode("op", driven.operator, self.results.counters)


Steps = Sequence[tuple[str, Any]]
"""("rows", (port, batch)), ("watermark", time), ("pass", microseconds) and ("idle", None)."""


def steps_of(rng: random.Random, kind: Kind, batches: Callable[[random.Random, Any], Iterator[Any]]) -> Steps:
    """Draw steps: batches of all inputs in turns, watermarks, pauses and idleness."""
    steps: list[tuple[str, Any]] = []
    inputs = [list(batches(rng, schema)) for schema in kind.inputs]
    passed_us = START_OF_TIME_US
    while any(inputs):
        port = rng.choice([port for port, left in enumerate(inputs) if left])
        batch = inputs[port].pop(0)
        steps.append(("rows", (port, batch)))
        times = [
            time for left in inputs for later in left[:1] for time in later.column("at").cast(pa.int64()).to_pylist()
        ]
        time_us = min(times, default=0) - rng.choice([6, 0, 0, -4])
        if times and time_us > passed_us and rng.random() < 0.6:
            passed_us = time_us
            steps.append(("watermark", time_us))
        if rng.random() < 0.2:
            steps.append(rng.choice([("pass", 400_000), ("pass", 3_000_000), ("idle", None)]))
    return steps


def do(job: Plain | Paged, step: tuple[str, Any]) -> None:
    """Take one step; timers come before it, as in a worker loop. The clock is moved by whoever owns it."""
    what, of = step
    for driven in job.instances:
        driven.timers(idle=what == "idle")
    if what == "rows":
        job.process(*of)
    elif what == "watermark":
        for driven in job.instances:
            driven.watermark(of)


def finish(job: Plain | Paged, clock: ManualClock) -> Results:
    """Let time pass until nothing waits for it, and end the input."""
    with suppress(AttributeError):
        job.upload()  # type: ignore[union-attr]
    for _ in range(3):
        clock.advance_us(5_000_000)
        for driven in job.instances:
            driven.timers()
    for driven in job.instances:
        driven.end()
        assert driven.passed_us == END_OF_TIME_US
        assert driven.operator.timer_ns() is None or driven.operator.timer_ns()
    assert job.results.counters.balanced(), job.results.counters
    for driven in job.instances:
        driven.operator.close()
    return job.results
