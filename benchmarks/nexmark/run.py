"""Runs one Nexmark query and measures it: the process behind every line of ``penstock nexmark``.

A query runs in a process of its own, so that its peak memory is its own.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.benchmarks.nexmark.events import KINDS, Events, EventSource, count_events
from penstock.benchmarks.nexmark.queries import load
from penstock.benchmarks.nexmark.topic import SCHEME, EventTopic, parse_address
from penstock.dsl.job import Job, embed, make_ready
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.model.config import LoopOptions
from penstock.model.connectors import Sink, Writer
from penstock.runs.cores import usable_cores
from penstock.runs.executors import with_task_managers
from penstock.runs.run_options import EMBEDDED, PROCESSES, RAY, RunOptions

GENERATOR = "generator"
WARM_UP_EVENTS = 5_000
"""Enough to load every compiled kernel a query uses."""


@dataclass(frozen=True, slots=True)
class QueryMeasurement:
    """One measured run. ``seconds`` exclude the start of processes, and include reading and decoding.

    They exclude kernel loading, too, but for task managers, each of which loads kernels when it first needs them.
    ``rows`` are the rows of the final result, retractions taken off, ``peak_rss_mb`` that of the largest process.
    ``task_managers`` is None on the embedded executor, ``transport`` None where task managers chose.
    """

    query: str
    events: int
    seconds: float
    events_per_s: float
    rows: int
    peak_rss_mb: float
    parallelism: int
    executor: str = EMBEDDED
    task_managers: int | None = None
    transport: str | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """Where a query runs: the executor, and if it has any its processes (None: one a core) and transport (the best).

    ``address`` is that of a Ray cluster (None: one of its own, or the one there is).
    """

    executor: str = EMBEDDED
    task_managers: int | None = None
    transport: str | None = None
    address: str | None = None

    @property
    def processes(self) -> int | None:
        """The number of task managers, None on the embedded executor and where a cluster says it."""
        return self.task_managers or usable_cores() if self.executor == PROCESSES else self.task_managers


EXECUTION = tuple(Execution.__dataclass_fields__)
"""What a request may say of where its query runs."""


class CountingSink(Sink):
    """Counts the rows of the final result: insertions minus retractions."""

    in_caller = True

    def __init__(self) -> None:
        """Start at zero."""
        self.rows = 0

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Count into this sink."""
        return _CountingWriter(self, "weight" in schema.names)


class _CountingWriter(Writer):
    def __init__(self, sink: CountingSink, weighted: bool) -> None:
        self._sink = sink
        self._weighted = weighted

    def write(self, rows: pa.RecordBatch) -> None:
        if self._weighted:
            self._sink.rows += int(rows.column("weight").to_numpy().sum())
        else:
            self._sink.rows += rows.num_rows


def run_query(
    name: str,
    source: EventSource,
    *,
    parallelism: int = 1,
    batch_rows: int | None = None,
    out: Path | None = None,
    wait: Callable[[], object] = lambda: None,
    execution: Execution = Execution(),
) -> QueryMeasurement:
    """Warm up, ``wait``, run the query to the end of its input, and write the final result to ``out`` if given.

    Kernels are compiled in the warm-up, which is on the embedded executor: task managers find them on disk.
    """
    loop = LoopOptions() if batch_rows is None else LoopOptions(batch_rows=batch_rows)
    with _small(source) as few:
        _execute(name, few, CountingSink(), RunOptions(name, parallelism, None, loop))
    wait()
    sink: CountingSink | MemorySink = CountingSink() if out is None else MemorySink()
    if isinstance(source, EventTopic):
        source = source.bounded()
    options = with_task_managers(
        RunOptions(
            name,
            parallelism,
            None,
            loop,
            executor=execution.executor,
            task_managers=execution.processes,
            transport=execution.transport,
            address=execution.address,
            attached=execution.executor == RAY,
        )
    )
    seconds, read = _execute(name, source, sink, options)
    events = read if isinstance(source, EventTopic) else count_events(source)
    if isinstance(sink, MemorySink):
        assert out is not None
        table = sink.table()
        out.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, out / f"{name}.parquet")
        rows = table.num_rows
    else:
        rows = sink.rows
    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak_rss_mb = max(resource.getrusage(who).ru_maxrss for who in processes) / 1024
    return QueryMeasurement(
        name,
        events,
        seconds,
        events / seconds,
        rows,
        round(peak_rss_mb, 1),
        parallelism,
        options.executor,
        options.task_managers,
        options.transport,
    )


@contextmanager
def _small(source: EventSource) -> Iterator[EventSource]:
    """Give a few events of the same make: kernels are compiled for the types and layouts they meet."""
    if isinstance(source, NexmarkConfig):
        yield replace(source, events=WARM_UP_EVENTS)
        return
    if isinstance(source, EventTopic):
        yield source.bounded().beginning(WARM_UP_EVENTS)
        return
    with TemporaryDirectory(prefix="penstock-") as folder:
        for kind in KINDS:
            file = pq.ParquetFile(source / f"{kind}.parquet")
            rows = next(file.iter_batches(WARM_UP_EVENTS), None)
            table = pa.Table.from_batches([] if rows is None else [rows], schema=file.schema_arrow)
            pq.write_table(table, Path(folder) / f"{kind}.parquet", compression="none")
        yield Path(folder)


def _execute(name: str, source: EventSource, sink: Sink, options: RunOptions) -> tuple[float, int]:
    """Build and run the query; return the seconds from opening its sources to closing its sink, and the rows read.

    Task managers are up, and sources open, when the time begins on executors that have some.
    """
    job = Job()
    stream = load(name)(Events(job, source))
    stream.write(sink, mode="changelog" if stream.updating else "append").name(name)
    if options.executor != EMBEDDED:
        with TemporaryDirectory(prefix="penstock-") as folder:
            managed = make_ready(job, replace(options, directory=Path(folder)))
            managed.run()
        return managed.metrics().elapsed_ns / 1e9, managed.metrics().source_rows
    started = time.perf_counter()
    running = embed(job, options)
    running.run()
    return time.perf_counter() - started, running.metrics().source_rows


def main(argv: Sequence[str]) -> int:
    """Run what one JSON argument describes, after a line of input if it says so; print the result as one JSON line."""
    request = json.loads(argv[0])
    given = request["source"]
    source: EventSource
    if given == GENERATOR:
        source = NexmarkConfig(events=request["events"])
    else:
        topic = given.startswith(SCHEME)
        source = parse_address(given, request.get("kafka_settings", ())) if topic else Path(given)
    result = run_query(
        request["query"],
        source,
        parallelism=request["parallelism"],
        batch_rows=request["batch_rows"],
        out=Path(request["out"]) if request["out"] else None,
        wait=sys.stdin.readline if request.get("wait") else lambda: None,
        execution=Execution(**{name: request[name] for name in EXECUTION if name in request}),
    )
    print(json.dumps(asdict(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
