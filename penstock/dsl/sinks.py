"""Writers that end streams: the ``write_...`` methods and what they return."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TextIO

import pyarrow as pa

from penstock.dsl.arguments import check_accuracy, check_function, check_max_lag, check_priority, check_resources
from penstock.dsl.job import Job
from penstock.dsl.kafka_sinks import MessageColumns, kafka_sink
from penstock.engine.connectors.files.sinks import CsvSink, JsonLinesSink, ParquetSink
from penstock.engine.connectors.local.black_hole import BlackHoleSink
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.connectors.local.print_sink import PrintSink
from penstock.engine.connectors.local.table_rows import table_rows
from penstock.model.config import check_count
from penstock.model.connectors import Sink
from penstock.model.durations import Duration
from penstock.model.errors import OptionError
from penstock.model.function_sink import FunctionSink
from penstock.model.ids import OperatorId
from penstock.model.job_graph import Input, SinkSpec
from penstock.model.max_error import LEAST_KEEP, MaxError, Otherwise
from penstock.model.option_literals import Guarantee, MessageFormat, WriteMode
from penstock.model.schema import StreamSchema
from penstock.model.strata import Strata, check_strata

Key = str | Sequence[str] | None


class SinkHandle:
    """A sink that was added to a job; its methods change the query and return the handle."""

    def __init__(self, job: Job, operator: OperatorId) -> None:
        """Refer to a sink; the ``write_...`` methods of streams return these."""
        self.job = job
        self._operator = operator

    def name(self, name: str) -> Self:
        """Name the query; a sink defined again under the same name replaces the old one."""
        self.job.change(self._operator, name=name, named=True)
        return self

    def parallelism(self, instances: int) -> Self:
        """Write with this many instances.

        Raises:
            OptionError: it is below 1.
        """
        check_count("parallelism", instances)
        self.job.change(self._operator, parallelism=instances)
        return self

    def resources(self, *, num_gpus: float = 0, custom: Mapping[str, float] | None = None) -> Self:
        """Write only where each instance has so many GPUs, and of ``custom`` resources so much.

        The names of those are the ones that the nodes of a Ray cluster were started with. Whatever is in one task with
        the sink runs there as well. Only task managers on Ray can have any of it.

        Raises:
            OptionError: an amount is not above 0, or above 1 and not whole.
        """
        self.job.change(self._operator, resources=check_resources(num_gpus, custom))
        return self

    def with_min_accuracy(self, accuracy: float, *, columns: bool = True, strata: Strata | None = None) -> Self:
        """Allow shedding for this query down to this accuracy, in [0, 1]; 1.0 (the default) forbids it.

        Below 1 the query is under contract, and writes how good its results are behind its columns: ``accuracy`` and
        ``biased``, and for each count, sum or mean ``NAME_low``, ``NAME_high`` and ``NAME_certified``. Without
        ``columns`` it does not. ``strata``: see `with_max_error`.

        Raises:
            OptionError: it is no number in [0, 1], or it is 1 and the query wants a maximum error; or there are no such
                strata.
        """
        least = check_accuracy(accuracy)
        spec = self.job.graph[self._operator].spec
        if least == 1.0 and isinstance(spec, SinkSpec) and spec.max_error is not None:
            raise OptionError("with_min_accuracy(1.0) forbids what with_max_error() allows: leave out one of them")
        return self._change("min_accuracy", min_accuracy=least, columns=columns, **_strata(strata))

    def with_max_error(
        self,
        error: float,
        *,
        confidence: float = 0.95,
        otherwise: Otherwise = "keep",
        groups: float = 0.95,
        strata: Strata | None = None,
    ) -> Self:
        """Keep as many rows under overload as this error needs: half of an interval within ``error`` times its value.

        That holds for the share ``groups`` of the rows of the query; both are above 0 and below 1, and intervals are
        those at ``confidence``. It is under contract then: without `with_min_accuracy` below 1 it may be shed down to
        1/64. Where there is not enough CPU for it, rows whose intervals are wider are written as they are
        (``otherwise="keep"``), or with null for such values (``"null"``). With ``"correct"`` they are written as they
        are and ``penstock validate --correct`` publishes the exact rows later: of a topic of JSON.

        ``strata="key"`` keeps of the messages of each key, ``"partition"`` of the records of each partition, an even
        share: k of any 64 in a row at a rate of k/64. A group that is made of such rows is off by less than if each row
        was dropped by itself, so that a wanted error takes fewer rows. ``"key"`` needs Kafka.

        Raises:
            OptionError: a number is out of its range, or there is no such ``otherwise`` or ``strata``.
        """
        spec = self.job.graph[self._operator].spec
        assert isinstance(spec, SinkSpec)
        least = spec.min_accuracy if spec.under_contract else LEAST_KEEP
        wanted = MaxError(error, confidence, otherwise, groups)
        return self._change("max_error", min_accuracy=least, max_error=wanted, **_strata(strata))

    def with_max_lag(self, lag: Duration) -> Self:
        """Call it overload when rows of this query wait longer than this before they are processed.

        Raises:
            OptionError: it is no duration above zero.
        """
        return self._change("max_lag", max_lag_us=check_max_lag(lag))

    def with_priority(self, priority: int) -> Self:
        """Set how important the query is; greater is more important, 0 the default.

        Raises:
            OptionError: it is no whole number.
        """
        return self._change("priority", priority=check_priority(priority))

    def _change(self, promise: str, **changes: Any) -> Self:
        """Change the sink by what the program says of a ``promise``, as a file may name it."""
        from dataclasses import replace

        spec = self.job.graph[self._operator].spec
        assert isinstance(spec, SinkSpec)
        self.job.change(self._operator, spec=replace(spec, **changes))
        self.job.promised.setdefault(self._operator, set()).add(promise)
        return self


def _strata(strata: Strata | None) -> dict[str, Strata]:
    """Return the change that strata make to a query; None leaves those that it has."""
    check_strata(strata)
    return {} if strata is None else {"strata": strata}


class Result(SinkHandle):
    """The rows that `collect` gathered, once the job has run; any library that reads Arrow takes it as it is."""

    def __init__(self, job: Job, operator: OperatorId, sink: MemorySink) -> None:
        """Refer to a memory sink."""
        super().__init__(job, operator)
        self._sink = sink

    def table(self) -> pa.Table:
        """Return all rows received so far; of an updating stream, the rows that stand (without weight)."""
        return self._sink.table()

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows received so far as dicts."""
        return table_rows(self.table())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table().__arrow_c_stream__(requested_schema)


class Writes(ABC):
    """The sinks of a `penstock.dsl.stream.Stream`.

    ``mode`` is ``append`` for a stream that never takes rows back. An updating stream is written as ``changelog``
    (every row with a ``weight`` of +1 or -1) or ``upsert`` (with ``key``: the last row of each key, and ``deleted``).
    """

    job: Job
    _exchange: str | None

    @property
    @abstractmethod
    def _schema(self) -> StreamSchema: ...

    @abstractmethod
    def _input(self) -> Input: ...

    def write(self, sink: Sink, *, mode: WriteMode = "append", key: Key = None) -> SinkHandle:
        """Write to any sink."""
        return SinkHandle(self.job, self._sink(sink, mode, key))

    def write_parquet(self, path: str | Path, *, mode: WriteMode = "append", key: Key = None) -> SinkHandle:
        """Write Parquet: one file if ``path`` has a suffix, else a directory with a part per instance."""
        return self._write_file(ParquetSink(path), path, mode, key)

    def write_csv(self, path: str | Path, *, mode: WriteMode = "append", key: Key = None) -> SinkHandle:
        """Write CSV with a header: one file if ``path`` has a suffix, else a directory with a part per instance."""
        return self._write_file(CsvSink(path), path, mode, key)

    def write_json(self, path: str | Path, *, mode: WriteMode = "append", key: Key = None) -> SinkHandle:
        """Write JSON lines: one file if ``path`` has a suffix, else a directory with a part per instance."""
        return self._write_file(JsonLinesSink(path), path, mode, key)

    def write_kafka(
        self,
        topic: str,
        *,
        kafka: str | Mapping[str, Any],
        format: MessageFormat = "json",
        schema: Any = None,
        message: type[Any] | None = None,
        registry: Mapping[str, Any] | str | None = None,
        key: Key = None,
        headers: str | None = None,
        timestamp: bool | str = True,
        guarantee: Guarantee = "at_least_once",
        mode: WriteMode = "append",
    ) -> SinkHandle:
        """Write a message per row to a topic, which must be there.

        ``kafka`` is the address of a broker, or a mapping of librdkafka's settings, with secrets as ``env:NAME`` or
        ``file:PATH``. ``format`` is ``json``, ``raw`` (the one column that is left), ``avro`` (by ``schema``, or by one
        made from the columns), ``protobuf`` (a generated class as ``message``) or ``arrow`` (many rows in a message, no
        key). ``registry`` is the URL of a schema registry, or the settings of its client: the schema is registered as
        that of the subject ``TOPIC-value``.

        ``key``: text as UTF-8, bytes as they are, other columns as JSON text, several as one JSON object; messages go
        to the partition where Java's clients put them. ``headers`` is a column of maps from text to bytes.
        ``timestamp``: True for event time if there is one, another timestamp column, or False for the time of writing.

        In ``upsert`` mode ``key`` says which row replaces which, and a deleted row is a tombstone.

        ``guarantee="exactly_once"`` needs checkpoints: an epoch appears in one transaction for each instance when its
        checkpoint is complete, for consumers with ``isolation.level=read_committed``. Otherwise messages leave at
        once, and some come again after a failure.

        Raises:
            PlanError: there is no such column, or it has no fitting type.
            OptionError: a setting, the format or the guarantee is none.
        """
        encoding = {"name": format, "schema": schema, "message": message, "registry": registry}
        columns = MessageColumns(_columns(key), headers, timestamp)
        sink = kafka_sink(self._schema, topic, kafka, encoding, columns, guarantee, mode)
        return self.write(sink, mode=mode, key=key if mode == "upsert" else None)

    def print(self, *, mode: WriteMode = "append", key: Key = None, file: TextIO | None = None) -> SinkHandle:
        """Print every row."""
        return self.write(PrintSink(file), mode=mode, key=key)

    def write_black_hole(self, *, mode: WriteMode = "append", key: Key = None) -> SinkHandle:
        """Count rows and forget them; every column is computed."""
        return self.write(BlackHoleSink(), mode=mode, key=key)

    def for_each_batch(
        self, function: Callable[[pa.RecordBatch], None], *, mode: WriteMode = "append", key: Key = None
    ) -> SinkHandle:
        """Call a function with every batch of rows."""
        check_function("for_each_batch", function)
        return self.write(FunctionSink(function), mode=mode, key=key)

    def collect(self) -> Result:
        """Keep all rows in memory; of an updating stream, what stands after all retractions."""
        sink = MemorySink()
        updating = bool(getattr(self, "updating", False))
        return Result(self.job, self._sink(sink, "changelog" if updating else "append", None), sink)

    def _write_file(self, sink: Sink, path: str | Path, mode: WriteMode, key: Key) -> SinkHandle:
        """Let one instance write where one file is wanted."""
        handle = self.write(sink, mode=mode, key=key)
        return handle.parallelism(1) if Path(path).suffix else handle

    def _sink(self, sink: Sink, mode: WriteMode, key: Key) -> OperatorId:
        return self.job.add(SinkSpec(sink, mode, _columns(key)), [self._input()], kind="sink")


def _columns(key: Key) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key or ())
