"""What the stream approximates is exact in Spark: such columns are held within their error, or left out and named."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock import col
from penstock.dsl.job import Job
from penstock.model.job_graph import OperatorNode, SinkSpec
from penstock.replay.approximate import approximate_columns
from penstock.replay.frames import ReplayError
from penstock.replay.inexact import ApproximateColumn
from penstock.replay.source_reading import SourceReading
from penstock.replay.validation import validate_sink
from penstock.replay.validation_result import ComparisonStatus, QueryValidation
from tests.replay.both import timed

ROWS = pa.table(
    {
        "at": pa.array([1_000_000 * (number // 10) for number in range(4_000)], pa.timestamp("us")),
        "k": pa.array([number % 3 for number in range(4_000)], pa.int64()),
        "n": pa.array([(number * 7_919) % 1_997 for number in range(4_000)], pa.int64()),
    }
)


def sinks(job: Job) -> dict[str, OperatorNode]:
    return {node.name: node for node in job.graph.operators.values() if isinstance(node.spec, SinkSpec)}


def job_of(folder: Path) -> Job:
    job = Job()
    rows = timed(job, ROWS)
    calls: dict[str, Any] = {"d": ps.approx_count_distinct("n"), "q": ps.approx_quantile("n", 0.5), "n": ps.count()}
    windows = rows.key_by("k").window(ps.tumbling("10m")).agg(**calls).name("windows")
    shown = windows.select("k", "window_start", "window_end", "n", distinct="d", middle=col("q"), twice=col("d") * 2)
    shown.write_parquet(folder / "shown").name("shown")
    windows.select("n", "d").write_parquet(folder / "bare").name("bare")
    windows.filter(col("d") > 10).write_parquet(folder / "some").name("some")
    return job


def test_columns_are_followed_through_the_plan(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    found = approximate_columns(job.graph, sinks(job)["shown"])
    assert found == {
        "distinct": ApproximateColumn("approx_count_distinct", pytest.approx(0.08125)),
        "middle": ApproximateColumn("approx_quantile"),
        "twice": ApproximateColumn("approx_count_distinct"),
    }
    with pytest.raises(ReplayError, match=r"'filter-1' cannot be replayed: it works with 'd', which the stream approx"):
        approximate_columns(job.graph, sinks(job)["some"])


@pytest.mark.long("three answers of Spark; test_columns_are_followed_through_the_plan")
def test_an_estimate_may_be_off_by_its_error(tmp_path: Path, spark: SparkSession) -> None:
    job = job_of(tmp_path)
    job.run("approximate")

    def found(name: str) -> QueryValidation:
        return validate_sink(job.graph, sinks(job)[name], SourceReading(spark, tasks=2), spark)

    shown, bare = found("shown"), found("bare")
    assert (shown.why, shown.status, bare.why, bare.status) == (
        None,
        ComparisonStatus.SAME,
        None,
        ComparisonStatus.SAME,
    )
    assert list(shown.notes) == [
        "column 'distinct' is approximate in the stream (approx_count_distinct): it was compared within 8.1%",
        "column 'middle' is approximate in the stream (approx_quantile) and is left out",
        "column 'twice' is approximate in the stream (approx_count_distinct) and is left out",
    ]
    assert len(bare.notes) == 1
    file = next((tmp_path / "shown").glob("part-*"))
    rows = pq.read_table(file)
    wrong = pa.array([value * 11 // 10 for value in rows.column("distinct").to_pylist()], pa.int64())
    pq.write_table(rows.set_column(rows.schema.get_field_index("distinct"), "distinct", wrong), file)
    assert found("shown").different > 0
