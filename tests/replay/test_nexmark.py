"""All Nexmark queries but one: Spark answers what our stream does.

q12 has windows of processing time: which rows they held is known to nobody afterwards.
"""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import NAMES, load
from penstock.engine.connectors.memory_sink import MemorySink
from penstock.engine.connectors.nexmark_config import NexmarkConfig
from penstock.job import Job
from penstock.replay.compiler import compile_job
from penstock.replay.frames import ReplayError
from tests.benchmarks.same_rows import assert_same_rows
from tests.replay.both import collected, reading

EVENTS = 20_000
QUERIES = [name for name in NAMES if name != "q12"]

Answers = Mapping[str, tuple[pa.Table, pa.Table]]


@pytest.fixture(scope="module")
def answers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What Spark and our stream answer, by query; all queries are one job."""
    folder = tmp_path_factory.mktemp("nexmark")
    # Slow enough that windows of ten seconds, and auctions, end.
    write_dataset(folder, NexmarkConfig(EVENTS, rate_per_s=200.0))
    job = Job()
    events = Events(job, Path(folder))
    sinks: dict[str, MemorySink] = {}
    for name in QUERIES:
        stream = load(name)(events)
        sinks[name] = MemorySink()
        stream.write(sinks[name], mode="changelog" if stream.updating else "append").name(name)
    frames = compile_job(job.graph, reading(spark))
    job.run("nexmark")
    return {name: (collected(frames[name]), sink.table()) for name, sink in sinks.items()}


@pytest.mark.parametrize("name", QUERIES)
def test_spark_answers_what_the_stream_does(answers: Answers, name: str) -> None:
    replayed, streamed = answers[name]
    assert streamed.num_rows
    assert_same_rows(replayed, streamed)


def test_windows_of_processing_time_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_dataset(tmp_path, NexmarkConfig(10))
    job = Job()
    load("q12")(Events(job, tmp_path)).write_black_hole()
    with pytest.raises(
        ReplayError, match=r"'agg-1' cannot be replayed: its windows are of processing time.*q12\.py:\d"
    ):
        compile_job(job.graph, reading(spark))
