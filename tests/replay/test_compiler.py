"""The compiler: what it hands to sinks, and what it refuses before anything is read."""

from collections.abc import Mapping

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock as ps
from penstock import col, tumbling
from penstock.dsl.job import Job
from penstock.dsl.readers import read_memory
from penstock.dsl.stream import Stream
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.plan.optimiser import optimise
from penstock.model.job_graph import OperatorNode
from penstock.replay.compiler import compile_job
from penstock.replay.frames import Frame, ReplayError
from tests.benchmarks.same_rows import assert_same_rows
from tests.replay.both import check_both, collected, compiled, random_rows, reading, timed

ROWS = random_rows(41, 60)


def never(node: OperatorNode) -> DataFrame:
    raise AssertionError(f"{node.name} was read")


def test_a_pipeline_with_several_sinks(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, ROWS)
        parts = stream.split(many=col("small") > 0)
        few = parts["many"].filter(col("flag")).with_columns(twice=col("small").cast("int64") * 2)
        both = parts["many"].select("k", "at").union(parts["rest"].select("k", "at"))
        return {
            "few": few,
            "rest": parts["rest"].key_by("k").agg(n=ps.count()),
            "both": both.window(tumbling("10s")).agg(n=ps.count()),
        }

    check_both(spark, build)


def test_frames_have_the_schemas_of_the_stream(spark: SparkSession) -> None:
    job = Job()
    counts = timed(job, ROWS).key_by("k").window(tumbling("5s")).agg(n=ps.count())
    counts.write_black_hole().name("counts")
    frame = compile_job(job.graph, reading(spark))["counts"]
    assert frame.schema == job.graph[counts._input().operator].outputs["main"]
    assert frame.rows.columns == ["k", "window_start", "window_end", "n"]


def test_no_row_is_late_in_a_batch(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        left, right = timed(job, ROWS), timed(job, ROWS.select(["k", "at"]))
        joined = left.interval_join(right, on="k", between=("0s", "1s"))
        return {
            "left": joined.side_output("late"),
            "right": joined.side_output("late_right"),
            "windows": left.window(tumbling("1s")).agg(n=ps.count()).side_output("late"),
        }

    frames = compiled(spark, build)
    assert {name: collected(frame).num_rows for name, frame in frames.items()} == {"left": 0, "right": 0, "windows": 0}
    assert frames["right"].rows.columns == ["k", "at"]


def test_rows_without_event_time_are_left_out(spark: SparkSession) -> None:
    times = pa.array([0, None, 2], pa.timestamp("s"))
    rows = pa.table({"at": times, "x": pa.array([1, 2, 3])})
    answers = check_both(spark, lambda job: {"all": timed(job, rows)})
    assert sorted(answers["all"]["x"].to_pylist()) == [1, 3]


def refuse(build: Mapping[str, Stream], job: Job) -> str:
    for name, stream in build.items():
        stream.write_black_hole(mode="changelog" if stream.updating else "append").name(name)
    with pytest.raises(ReplayError) as raised:
        compile_job(job.graph, never)
    return str(raised.value)


def test_dead_letters_are_refused_before_anything_is_read() -> None:
    job = Job()
    cast = timed(job, ROWS).with_columns(number=col("name").cast("int64")).name("cast")
    text = refuse({"letters": cast.side_output("dead_letter").filter(col("operator") == "cast").name("bad")}, job)
    assert "operator 'bad' cannot be replayed: it reads the dead letters of 'cast'" in text
    assert "test_compiler.py:" in text


def test_windows_of_processing_time_are_refused() -> None:
    job = Job()
    counts = timed(job, ROWS).window(tumbling("1s", clock="processing")).agg(n=ps.count()).name("by clock")
    assert "operator 'by clock' cannot be replayed: its windows are of processing time" in refuse({"x": counts}, job)


def test_ties_that_spark_cannot_order_are_refused() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    rows = pa.table({"at": pa.array([0], pa.timestamp("us")), "tags": pa.array([[("a", 1)]], kind)})
    job = Job()
    stream = timed(job, rows)
    text = refuse({"x": stream.asof_join(stream, on="at").name("newest")}, job)
    assert "operator 'newest' cannot be replayed: right rows of one time are told apart by all their columns" in text
    assert "the map 'tags'" in text


def test_types_that_spark_does_not_have_are_refused() -> None:
    rows = pa.table({"at": pa.array([0], pa.timestamp("ns"))})
    job = Job()
    text = refuse({"x": read_memory(rows, job=job).name("precise")}, job)
    assert "operator 'precise' cannot be replayed: column 'at': Spark has no type for timestamp[ns]" in text


def test_what_no_sink_needs_is_not_checked(spark: SparkSession) -> None:
    job = Job()
    stream = timed(job, ROWS)
    stream.window(tumbling("1s", clock="processing")).agg(n=ps.count())
    stream.write_black_hole()
    assert len(compile_job(job.graph, reading(spark))) == 1


def test_a_source_that_brings_other_columns_is_an_error(spark: SparkSession) -> None:
    job = Job()
    read_memory(pa.table({"x": [1]}), job=job).name("numbers").write_black_hole()
    with pytest.raises(ReplayError, match="source 'numbers' has no column 'x'"):
        compile_job(job.graph, lambda node: spark.range(1))


def test_an_odd_name_is_only_a_name(spark: SparkSession) -> None:
    rows = pa.table({"a`b": [1, 1], "c.d 'e'": [2, 3], "SELECT": ["x", "y"], "select": ["z", "w"]})

    def build(job: Job) -> dict[str, Stream]:
        stream = read_memory(rows, job=job)
        return {
            "agg": stream.key_by("a`b").agg(**{"n`": ps.sum_("c.d 'e'"), "N`": ps.max_("SELECT")}),
            "join": stream.join(stream.key_by("select").agg(n=ps.count()), on="select"),
            "top": stream.top(1, by=col("c.d 'e'").desc(), rank="r`"),
        }

    check_both(spark, build)


def test_frames_are_as_many_as_sinks(spark: SparkSession) -> None:
    job = Job()
    stream = timed(job, ROWS)
    stream.write_black_hole().name("one")
    stream.write_black_hole().name("two")
    frames = compile_job(job.graph, reading(spark))
    assert {name: type(frame) for name, frame in frames.items()} == {"one": Frame, "two": Frame}


def test_an_optimised_graph_means_the_same(spark: SparkSession) -> None:
    once = pa.table({"k": pa.array([0, 1, 2, 3]), "title": ["a", "b", "c", "d"]})
    job = Job()
    stream = timed(job, ROWS)
    titles = read_memory(once, job=job)
    sinks = {}
    for name, answer in {
        "joined": stream.join(titles, on="k", validate="m:1").filter(col("title") != "b").select("k", "n", "title"),
        "filtered": stream.with_columns(y=col("small") + 1).filter(col("flag")).select("y", "name"),
        "counts": stream.filter(col("k") > 0).key_by("k").window(ps.count_window(3)).agg(n=ps.sum_("small")),
    }.items():
        sinks[name] = MemorySink()
        answer.write(sinks[name]).name(name)
    frames = compile_job(optimise(job.graph), reading(spark))
    job.run("optimised")
    for name, sink in sinks.items():
        assert_same_rows(collected(frames[name]), sink.table())
