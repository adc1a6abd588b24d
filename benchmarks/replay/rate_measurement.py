"""One engine reads all bids several times, in a process of its own: prints what it counted and took as a JSON line.

Started by `rate` with one argument, a `Request` as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.benchmarks.replay.bids import FIELDS
from penstock.benchmarks.replay.process_tree import cpu_s
from penstock.dsl.aggregates import count, sum_
from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.model.job_graph import SourceSpec
from penstock.replay.compiler import compile_job
from penstock.replay.session import spark_session
from penstock.replay.source_reading import SourceReading
from penstock.replay.spark_types import sql_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, SPARK, DUCKDB = "replay of the topic", "Spark, JSON lines", "DuckDB, JSON lines"
ENGINES = (OURS, SPARK, DUCKDB)

COUNT, GROUPED, WIDE = "count", "grouped", "wide"
"""How many messages there are; count and sum of prices by channel, with these two fields declared, or all of them."""

QUERIES = (COUNT, GROUPED, WIDE)
_NARROW = ("channel", "price")

Answer = tuple[int, int, int]
"""Groups, messages and the sum of prices; of a count there is one group and no sum."""


@dataclass(frozen=True, slots=True)
class Request:
    """Request of one engine: ``stops`` are ends of the topic's partitions, ``files`` a pattern of its lines."""

    engine: str
    bootstrap: str
    topic: str
    stops: Mapping[str, int]
    files: str
    broker: int
    runs: int
    memory: str
    cores: int = 2


@dataclass(frozen=True, slots=True)
class Run:
    """One query: seconds by the clock, of CPU of the engine with its workers, and of the broker's CPU."""

    query: str
    seconds: float
    cpu_s: float
    broker_cpu_s: float
    answer: Answer


def measure(request: Request) -> tuple[float, list[Run]]:
    """Return the seconds until the engine is there, and the runs: every query in turn, the first of each is cold."""
    started = time.perf_counter()
    if request.engine == DUCKDB:
        ask = duckdb_asking(request)
        return time.perf_counter() - started, _runs(request, ask)
    settings = {"spark.driver.memory": request.memory}
    with spark_session(f"local[{request.cores}]", settings=settings, name="penstock-rate") as session:
        session_s = time.perf_counter() - started
        read = topic_reading(request, session) if request.engine == OURS else files_reading(request, session)
        return session_s, _runs(request, lambda query: answer(read, query))


def _runs(request: Request, ask: Callable[[str], Answer]) -> list[Run]:
    runs = []
    for query in QUERIES * request.runs:
        own, broker, began = cpu_s(os.getpid()), cpu_s(request.broker), time.perf_counter()
        answer = ask(query)
        seconds = time.perf_counter() - began
        runs.append(Run(query, seconds, cpu_s(os.getpid()) - own, cpu_s(request.broker) - broker, answer))
    return runs


def answer(read: Callable[[str], DataFrame], query: str) -> Answer:
    """Return what Spark answers."""
    from pyspark.sql import functions as f

    rows = read(query)
    if query == COUNT:
        return 1, rows.count(), 0
    row = rows.agg(f.count("*"), f.sum("n"), f.sum("total")).collect()[0]
    return int(row[0]), int(row[1]), int(row[2])


def topic_reading(request: Request, session: SparkSession) -> Callable[[str], DataFrame]:
    """Return what replays a pipeline, or reads its source."""

    def read(query: str) -> DataFrame:
        job = Job()
        names = FIELDS.names if query == WIDE else _NARROW
        fields = {name: FIELDS.field(name).type for name in names}
        bids = read_kafka(request.topic, kafka=request.bootstrap, schema=fields, job=job)
        reading = SourceReading(session, stop=request.stops)
        if query == COUNT:
            (node,) = (node for node in job.graph.operators.values() if isinstance(node.spec, SourceSpec))
            return reading(node)
        totals = bids.key_by("channel").agg(n=count(), total=sum_("price"))
        totals.write_black_hole(mode="changelog").name("out")
        return compile_job(job.graph, reading)["out"].rows

    return read


def files_reading(request: Request, session: SparkSession) -> Callable[[str], DataFrame]:
    """Return what reads lines as Spark does, and asks for the same."""
    from pyspark.sql import functions as f

    def read(query: str) -> DataFrame:
        names = FIELDS.names if query == WIDE else _NARROW
        schema = ", ".join(f"{name} {sql_type(FIELDS.field(name).type)}" for name in names)
        rows = session.read.schema(schema).json(request.files)
        if query == COUNT:
            return rows
        return rows.groupBy("channel").agg(f.count("*").alias("n"), f.sum("price").alias("total"))

    return read


def duckdb_asking(request: Request) -> Callable[[str], Answer]:
    """Return what asks DuckDB for the same of the lines."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {request.cores}")
    kinds = {"int64": "BIGINT", "string": "VARCHAR", "timestamp[ms]": "TIMESTAMP"}

    def ask(query: str) -> Answer:
        names = FIELDS.names if query == WIDE else _NARROW
        columns = ", ".join(f"'{name}': '{kinds[str(FIELDS.field(name).type)]}'" for name in names)
        rows = f"read_json('{request.files}', format = 'newline_delimited', columns = {{{columns}}})"
        if query == COUNT:
            ((count,),) = connection.execute(f"SELECT count(*) FROM {rows}").fetchall()
            return 1, int(count), 0
        grouped = f"SELECT channel, count(*) AS n, sum(price) AS total FROM {rows} GROUP BY channel"
        (answer,) = connection.execute(f"SELECT count(*), sum(n), sum(total) FROM ({grouped})").fetchall()
        return int(answer[0]), int(answer[1]), int(answer[2])

    return ask


def main(argv: Sequence[str]) -> int:
    """Measure what ``argv[0]`` asks for."""
    request: dict[str, Any] = json.loads(argv[0])
    session_s, runs = measure(Request(**request))
    print(json.dumps({"session_s": session_s, "runs": [asdict(run) for run in runs]}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
