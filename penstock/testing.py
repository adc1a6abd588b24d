"""A kit to test pipelines with: push rows, move time by hand, and look at what came out, at state and at timers.

No thread, no clock and no cluster: the pipeline runs inside `Input.push` and the other methods, on the same worker
loop as everywhere, until nothing is left to do. So a test is exact and takes milliseconds.

    kit = testing.Kit()
    orders = kit.input(Order, time="at")
    totals = kit.output(totals_per_shop(orders.stream))
    orders.push([{"shop": "north", "amount": 5, "at": "2026-01-01 12:00:03"}])
    orders.watermark("2026-01-01 12:00:10")
    assert totals.take() == [...]
"""

import json
import shutil
import weakref
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

import pyarrow as pa

from penstock.dsl.job import Job, embed
from penstock.dsl.pushed_rows import PushedSource
from penstock.dsl.readers import read
from penstock.dsl.stream import Stream
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.connectors.local.table_rows import table_rows
from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import Emission, Operator
from penstock.engine.core.elements import Batch
from penstock.engine.dataflow.worker import Ran
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.executors.simulation.calls import CallsAtOnce
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.operators.process.process import Process
from penstock.model.config import LoopOptions
from penstock.model.connectors import Read
from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import OptionError, PlanError
from penstock.model.job_graph import OperatorNode
from penstock.model.keyed_specs import ProcessSpec
from penstock.model.schema import Fields, to_arrow_schema
from penstock.runs.run_options import RunOptions

__all__ = ["Input", "Kit", "Output"]

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Where a kit's processing time begins, unless told otherwise."""

_BY_HAND = "36500d"
"""A watermark delay that no row outruns: the watermark moves by hand only."""


class Kit:
    """One pipeline under test. Declare inputs and outputs first; the job is built when something is pushed."""

    def __init__(self, *, start: datetime | str = START, parallelism: int = 1, batch_rows: int = 1_024) -> None:
        """``start`` is where processing time begins."""
        self.job = Job()
        self._clock = ManualClock(0, _microseconds(start))
        self._parallelism = parallelism
        self._batch_rows = batch_rows
        self._inputs: list[Input] = []
        self._failures: list[tuple[str, BaseException, int]] = []
        self._folder = Path(mkdtemp(prefix="penstock-"))
        # Removed with the kit at the latest: a test that ends with a failed assertion closes nothing.
        self._remove_folder = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._running: EmbeddedJob | None = None
        self._ended = False

    def input(
        self, schema: Fields, *, time: str | None = None, watermark: Duration | None = None, name: str | None = None
    ) -> "Input":
        """Add an input; its ``stream`` is what the pipeline reads.

        ``time`` is the event time column. With ``watermark`` the watermark follows the newest row at that distance, as
        from a reader; without it, it moves by `Input.watermark` only.
        """
        self._declare()
        source = PushedSource(to_arrow_schema(schema))
        stream = read(source, time=time, watermark=_BY_HAND if watermark is None else watermark, job=self.job)
        added = Input(self, source, stream if name is None else stream.name(name))
        self._inputs.append(added)
        return added

    def output(self, stream: Stream) -> "Output":
        """Look at a stream: the pipeline's result, or any stream inside it."""
        self._declare()
        sink = MemorySink()
        stream.write(sink, mode="changelog" if stream.updating else "append")
        return Output(self, sink)

    def fail(self, operator: str, error: BaseException | None = None, *, after_rows: int = 0) -> None:
        """Let an operator fail, by its name, when it is given a row after this many.

        The error (default: a RuntimeError) ends the job as it would in production: it is raised by the `push` or
        `advance` that led to it, sinks are aborted, and the kit is of no further use.
        """
        self._failures.append((operator, error or RuntimeError(f"failure injected into {operator!r}"), after_rows))
        if self._running is not None:
            self._inject(self._running)

    def advance(self, duration: Duration) -> None:
        """Let processing time pass: emission intervals, processing-time windows and timers become due in order."""
        job = self._job()
        left_ns = to_microseconds(duration) * 1_000
        self._settle()
        while left_ns > 0:
            now_ns = self._clock.monotonic_ns()
            due = [operator.timer_ns() for operator in job.build.operators()]
            step_ns = min([left_ns, *(item - now_ns for item in due if item is not None and item > now_ns)])
            self._clock.advance_ns(step_ns)
            left_ns -= step_ns
            self._settle()

    def end(self) -> JobMetrics:
        """End every input: what waits for more is completed, and every row is accounted for. Return the metrics."""
        for item in self._inputs:
            item.source.ended = True
        return self._finish(drain=True)

    def stop(self) -> JobMetrics:
        """Stop as Ctrl-C does: what was pushed is processed, windows that are open stay unwritten."""
        return self._finish(drain=False)

    @property
    def now(self) -> datetime:
        """The processing time."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self._clock.wall_us())

    def metrics(self) -> JobMetrics:
        """Return the job's metrics now."""
        return self._job().metrics()

    def dead_letters(self) -> list[dict[str, Any]]:
        """Return the records that could not be processed, unless the pipeline reads them itself."""
        file = self._folder / "dead_letters.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []

    def state(self, operator: str) -> dict[str, Any]:
        """Return an operator's keyed state.

        Of a process function by name of the state, then by key: ``kit.state("alerts")["count"]["north"]``. Of any
        other operator by table, a list with one dict per key.
        """
        job = self._job()
        node = self._node(job, operator)
        states: dict[str, Any] = {}
        if isinstance(node.spec, ProcessSpec):
            for name in node.spec.states:
                states[name] = {}
                for item in self._processes(job, operator):
                    states[name].update(item.peek_state(name))
            return states
        for store in job.build.stores.get(node.id, []):
            for name, rows in store.contents():
                own = rows.select([column for column in rows.schema.names if not column.startswith("$")])
                states.setdefault(name, []).extend(own.to_pylist())
        return states

    def timers(self, operator: str, *, processing: bool = False) -> list[tuple[datetime, Any]]:
        """Return the timers that wait in a process function as (time, key), by time; in event time by default.

        Raises:
            OptionError: there is no such operator, or it has no timers.
        """
        job = self._job()
        if not isinstance(self._node(job, operator).spec, ProcessSpec):
            raise OptionError(f"the operator {operator!r} has no timers; only process functions set them")
        waiting = [item for process in self._processes(job, operator) for item in process.peek_timers()]
        waiting_timers = [(timer.time, key) for key, timer in waiting if timer.processing is processing]
        return sorted(waiting_timers, key=lambda item: (item[0], repr(item[1])))

    def close(self) -> None:
        """Abort the job if it still runs, and remove the kit's temporary files."""
        job, self._running = self._running, None
        if job is not None and not self._ended:
            job.stop()
            job.run()
        self._remove_folder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _declare(self) -> None:
        if self._running is not None:
            raise PlanError("the pipeline runs already; declare inputs and outputs before the first push")

    def _job(self) -> EmbeddedJob:
        if self._running is None:
            loop = LoopOptions(batch_rows=self._batch_rows, linger_ms=0)
            options = RunOptions("test", self._parallelism, self._folder, loop)
            self._running = embed(self.job, options, clock=self._clock, async_calls=CallsAtOnce)
            self._inject(self._running)
        return self._running

    def _settle(self) -> None:
        """Turn the loop until nothing can run."""
        job = self._job()
        for instance in job.build.instances:
            if instance.head is not None:
                instance.head.wake()
                job.worker.touch(instance)
        while isinstance(job.worker.step(), Ran):
            pass

    def _finish(self, *, drain: bool) -> JobMetrics:
        job = self._job()
        if not drain:
            job.stop()
        self._settle()
        self._ended = True
        job.run()
        return job.metrics()

    def _node(self, job: EmbeddedJob, operator: str) -> OperatorNode:
        for node in job.build.graph.graph.operators.values():
            if node.name == operator:
                return node
        raise self._unknown(operator)

    def _processes(self, job: EmbeddedJob, operator: str) -> list[Process]:
        nodes = [node for instance in job.build.instances for node in instance.nodes]
        return [node.operator for node in nodes if node.name == operator and isinstance(node.operator, Process)]

    def _inject(self, job: EmbeddedJob) -> None:
        nodes = [node for instance in job.build.instances for node in instance.nodes]
        for name, error, after_rows in self._failures:
            hit = [node.operator for node in nodes if node.name == name]
            if not hit:
                raise self._unknown(name)
            for operator in hit:
                _break(operator, error, after_rows)
        self._failures.clear()

    def _unknown(self, operator: str) -> OptionError:
        names = [node.name for node in self.job.graph.operators.values()]
        return OptionError(f"there is no operator {operator!r} in the pipeline; it has {', '.join(names)}")


class Input:
    """An input of a pipeline under test."""

    def __init__(self, kit: Kit, source: PushedSource, stream: Stream) -> None:
        """Inputs come from `Kit.input`."""
        self._kit = kit
        self.source = source
        self.stream = stream
        """The stream that the pipeline reads."""

    def push(self, *data: Any) -> None:
        """Push rows and run until nothing is left to do: dicts, or anything with the Arrow PyCapsule interface.

        Times may be given as text: ``"2026-01-01 12:00:03"``.

        Raises:
            SchemaError: rows do not fit the input's schema.
        """
        for item in data:
            rows = [item] if isinstance(item, dict) else item
            if isinstance(rows, list | tuple) and all(isinstance(row, dict) for row in rows):
                rows = [self._with_times(row) for row in rows]
            self.source.add(rows)
        self._kit._settle()

    def watermark(self, time: datetime | str) -> None:
        """Say that no row before ``time`` will follow, and run what that completes."""
        self.source.waiting.append(Read(watermark_us=_microseconds(time)))
        self._kit._settle()

    def end(self) -> None:
        """End this input."""
        self.source.ended = True
        self._kit._settle()

    def _with_times(self, row: dict[str, Any]) -> dict[str, Any]:
        kinds = {field.name: field.type for field in self.source.schema if pa.types.is_timestamp(field.type)}
        return {
            name: datetime.fromisoformat(value) if name in kinds and isinstance(value, str) else value
            for name, value in row.items()
        }


class Output:
    """The rows that a stream has put out."""

    def __init__(self, kit: Kit, sink: MemorySink) -> None:
        """Outputs come from `Kit.output`."""
        self._kit = kit
        self._sink = sink
        self._taken = 0

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows so far; of an updating stream, those that stand."""
        self._kit._settle()
        return self._sink.rows()

    def take(self) -> list[dict[str, Any]]:
        """Return what has come since the last call; of an updating stream with its ``weight`` of +1 or -1."""
        self._kit._settle()
        batches = self._sink.batches
        new = [row for batch in batches[self._taken :] for row in table_rows(batch)]
        self._taken = len(batches)
        return new


def _break(operator: Operator, error: BaseException, after_rows: int) -> None:
    """Put a failure in the way of an operator's rows."""
    work, left = operator.process, after_rows

    def process(port: int, batch: Batch) -> Iterable[Emission]:
        nonlocal left
        if batch.rows.num_rows > left:
            raise error
        left -= batch.rows.num_rows
        return work(port, batch)

    operator.process = process  # type: ignore[method-assign]


def _microseconds(time: datetime | str) -> int:
    """Return a point in time; one without zone is UTC."""
    value = datetime.fromisoformat(time) if isinstance(time, str) else time
    value = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
