"""Readers that begin streams: the ``read_...`` functions, each in a default job or in one of your own (``job=``)."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.dsl.job import Job, default_job
from penstock.dsl.stream import Stream
from penstock.engine.connectors.local.iterable import IterableSource
from penstock.engine.connectors.local.memory import MemorySource
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.connectors.nexmark.source import NexmarkSource
from penstock.engine.connectors.parquet.source import ParquetSource
from penstock.engine.connectors.text.csv_files import CsvSource
from penstock.engine.connectors.text.json_lines import JsonLinesSource
from penstock.model.config import check_on_error
from penstock.model.connectors import Source
from penstock.model.dead_letters import LetterTarget
from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import OptionError, SchemaError
from penstock.model.job_graph import SourceSpec
from penstock.model.option_literals import OnError
from penstock.model.schema import Fields, TimeColumn, check_names, required_paths, to_arrow_schema
from penstock.model.source_location import user_location

Path_ = str | Path


def read(
    source: Source,
    *,
    time: str | None = None,
    watermark: Duration = 0,
    max_ahead: Duration | None = None,
    on_error: OnError = "dead_letter",
    dead_letters: LetterTarget | None = None,
    shed: bool = True,
    job: Job | None = None,
) -> Stream:
    """Read from any source.

    ``time`` names the timestamp column that is the event time, ``watermark`` how late behind the newest row another
    one may come. A row whose event time is more than ``max_ahead`` ahead of the clock is a bad record, so that one with
    a wrong date does not make all others late (None: any time is taken). ``on_error`` says what becomes of bad records:
    ``dead_letter``, ``skip`` (both counted) or ``fail``; dead letters can be had as a stream by
    ``side_output("dead_letter")``, and ``dead_letters`` is a `dead_letter_topic` that takes them. With ``shed=False``
    no row is dropped here under overload, whatever queries behind it allow.

    Raises:
        SchemaError: there is no such column, or it is no timestamp.
        OptionError: ``dead_letters`` is to take letters that ``on_error`` does not make.
    """
    column = None
    if time is not None:
        check_names([time], source.schema.names, "time=")
        kind = source.schema.field(time).type
        if not pa.types.is_timestamp(kind):
            raise SchemaError(
                f"time={time!r} at {user_location()} must be a timestamp column, but it is {kind} in "
                f"{source.describe()}; declare it as a timestamp with schema=..., or convert the data"
            )
        column = TimeColumn(time)
        source = source.with_time(time)
    elif max_ahead is not None:
        raise OptionError(f"max_ahead= of {source.describe()} at {user_location()} is about event times: give time=...")
    job = job or default_job()
    delay_us = to_microseconds(watermark, "watermark")
    ahead_us = None if max_ahead is None else to_microseconds(max_ahead, "max_ahead")
    policy = check_on_error(on_error, source.describe())
    if dead_letters is not None and policy != "dead_letter":
        raise OptionError(
            f"{source.describe()} is to send dead letters to {dead_letters.describe()}, which needs "
            f"on_error='dead_letter', not {policy!r}"
        )
    spec = SourceSpec(source, delay_us, policy, dead_letters, ahead_us, shed)
    return Stream(job, job.add(spec, kind="source", time=column))


def read_parquet(
    path: Path_,
    *,
    schema: Fields | None = None,
    time: str | None = None,
    watermark: Duration = 0,
    max_ahead: Duration | None = None,
    on_error: OnError = "dead_letter",
    shed: bool = True,
    job: Job | None = None,
) -> Stream:
    """Read a Parquet file, a directory of them or a glob, in order of name. See `read` for the options."""
    source = ParquetSource(path, schema=_schema(schema))
    return read(source, time=time, watermark=watermark, max_ahead=max_ahead, on_error=on_error, shed=shed, job=job)


def read_csv(
    path: Path_,
    *,
    schema: Fields | None = None,
    time: str | None = None,
    watermark: Duration = 0,
    max_ahead: Duration | None = None,
    on_error: OnError = "dead_letter",
    shed: bool = True,
    job: Job | None = None,
) -> Stream:
    """Read CSV with a header: a file, a directory or a glob; types from ``schema`` or from the file's beginning."""
    source = CsvSource(path, schema=_schema(schema))
    return read(source, time=time, watermark=watermark, max_ahead=max_ahead, on_error=on_error, shed=shed, job=job)


def read_json(
    path: Path_,
    *,
    schema: Fields | None = None,
    strict: bool = False,
    time: str | None = None,
    watermark: Duration = 0,
    max_ahead: Duration | None = None,
    on_error: OnError = "dead_letter",
    shed: bool = True,
    job: Job | None = None,
) -> Stream:
    """Read JSON lines: a file, a directory or a glob; types from ``schema`` or from the beginning of the file.

    A line without a field that the schema requires is a bad record: ``int`` is required, ``int | None`` is not, an
    Arrow field if it is not nullable. Other fields are passed over; with ``strict`` a line that has one is bad, too.
    """
    required = () if schema is None else required_paths(schema)
    source = JsonLinesSource(path, _schema(schema), required, strict=strict)
    return read(source, time=time, watermark=watermark, max_ahead=max_ahead, on_error=on_error, shed=shed, job=job)


def read_memory(
    data: Any,
    *,
    schema: Fields | None = None,
    time: str | None = None,
    watermark: Duration = 0,
    max_ahead: Duration | None = None,
    on_error: OnError = "dead_letter",
    shed: bool = True,
    job: Job | None = None,
) -> Stream:
    """Read anything with the Arrow PyCapsule interface (pyarrow, polars, pandas, DuckDB) or a list of dicts."""
    source = MemorySource(data, schema=_schema(schema))
    return read(source, time=time, watermark=watermark, max_ahead=max_ahead, on_error=on_error, shed=shed, job=job)


def read_iterable(
    items: Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    schema: Fields,
    bounded: bool = True,
    time: str | None = None,
    watermark: Duration = 0,
    max_ahead: Duration | None = None,
    on_error: OnError = "dead_letter",
    shed: bool = True,
    job: Job | None = None,
) -> Stream:
    """Read dicts, dataclasses or Arrow batches from an iterable, or a function that makes one; it may be endless.

    An item that is None means that there is nothing now. With ``bounded=False`` a silent iterable is idle after a
    while, and no longer holds back the watermark of what it is joined with.

    A thread of its own pulls the items, at the most about 131,072 rows ahead of what is processed, so that the
    iterable may block. `Handle.stop` drops what was pulled but not yet read: an iterator has given those items away,
    a function makes a new one that starts over.
    """
    source = IterableSource(items, schema=to_arrow_schema(schema), bounded=bounded)
    return read(source, time=time, watermark=watermark, max_ahead=max_ahead, on_error=on_error, shed=shed, job=job)


def read_nexmark(kind: str, config: NexmarkConfig, *, watermark: Duration = "4s", job: Job | None = None) -> Stream:
    """Generate one of the three event types of the Nexmark benchmark: ``person``, ``auction`` or ``bid``."""
    return read(NexmarkSource(config, kind), time="dateTime", watermark=watermark, job=job)


def _schema(schema: Fields | None) -> Any:
    return None if schema is None else to_arrow_schema(schema)
