"""Metrics of a job whose instances are in several places: those of the parts together are those of the whole."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.managers.messages import Metrics, decode_for_head, encode
from penstock.engine.jobs.metrics import JobMetrics, merge_metrics, read_metrics
from tests.engine.dataflow.parts import Parts

DICE = np.random.default_rng(7)
TABLE = pa.table(
    {
        "k": DICE.integers(0, 50, 3_000),
        "v": DICE.integers(0, 1_000, 3_000),
        "t": pa.array(np.arange(3_000) * 1_000, pa.timestamp("us")),
    }
)


def rows(job: ps.Job) -> ps.Stream:
    return ps.read_memory(TABLE, time="t", job=job)


def windows(job: ps.Job) -> None:
    kept = rows(job).filter(ps.col("v") > 100).key_by("k").window(ps.tumbling("1s"))
    kept.agg(n=ps.count(), v=ps.sum_("v")).collect()


def two_pipelines(job: ps.Job) -> None:
    windows(job)
    # The second has no event time, so its source never has a watermark.
    ps.read_memory(TABLE.drop_columns("t"), job=job).key_by("k").agg(v=ps.max_("v")).write_black_hole(mode="changelog")


def a_join_with_itself(job: ps.Job) -> None:
    stream = rows(job)
    stream.join(stream, on="k", window=ps.tumbling("100ms")).write_black_hole()


def branches(job: ps.Job) -> None:
    stream = rows(job).with_columns(w=ps.col("v") + 1)
    stream.filter(ps.col("w") > 10).write_black_hole()
    stream.key_by("k").agg(n=ps.count()).write_black_hole(mode="changelog")
    stream.select("w").write_black_hole()


PIPELINES = [windows, two_pipelines, a_join_with_itself, branches]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("seed", range(3))
def test_the_parts_together_are_the_whole(pipeline: Callable[[ps.Job], None], seed: int, tmp_path: Path) -> None:
    dice = np.random.default_rng(seed)
    job = ps.Job()
    pipeline(job)
    graph = job.plan(int(dice.integers(1, 5)))
    count = int(dice.integers(2, 5))
    places = {(task.id, index): int(dice.integers(count)) for task in graph.tasks for index in range(task.parallelism)}
    made = Parts(graph, count, tmp_path, lambda task, index: places[task, index])
    whole = made.whole()
    started_ns, compared = SystemClock().monotonic_ns(), 0
    while True:
        ended = made.turn()
        if ended or dice.random() < 0.05:
            read = partial(
                read_metrics,
                "job",
                started_ns=started_ns,
                now_ns=SystemClock().monotonic_ns(),
                wall_us=1_700_000_000_000_000,
                stepped_ns=started_ns + 5,
            )
            parts = [crossed(read(part)) for part in made.builds]
            dice.shuffle(parts)
            assert merge_metrics("job", graph, parts) == read(whole)
            compared += 1
        if ended:
            break
    assert compared > 3
    for part in made.builds:
        for operator in part.operators():
            operator.close()


def crossed(metrics: JobMetrics) -> JobMetrics:
    """Return metrics after they have crossed to another process."""
    message = decode_for_head(encode(Metrics(metrics)))
    assert message == Metrics(metrics)
    return message.metrics


def test_metrics_of_a_run_cross_as_they_are(tmp_path: Path) -> None:
    job = ps.Job()
    texts = [{"v": "1"}, {"v": "x"}, {"v": "3"}]
    source = ps.read_memory(texts, schema=pa.schema({"v": pa.string()}), job=job)
    parsed = source.name("in").map(lambda row: {"n": int(row["v"])}, schema={"n": "int64"})
    parsed.key_by("n").agg(c=ps.count()).name("counted").write_black_hole(mode="changelog").name("out")
    metrics = job.run("cross", directory=tmp_path / "job", checkpoint_dir=tmp_path / "checkpoints")
    assert metrics.bad_records and metrics.checkpoints is not None
    assert crossed(metrics) == metrics
    assert msgspec.json.decode(msgspec.json.encode(metrics), type=JobMetrics) == metrics


def test_figures_of_several_moments_stay_apart(tmp_path: Path) -> None:
    job = ps.Job()
    windows(job)
    graph = job.plan(2)
    made = Parts(graph, 2, tmp_path)
    early, late = (read_metrics("job", part, 0, 9, 50) for part in made.builds)
    early = replace(early, elapsed_ns=5, loop_age_ns=None)
    late = replace(late, elapsed_ns=7, loop_age_ns=3)
    merged = merge_metrics("job", graph, [early, late])
    assert (merged.elapsed_ns, merged.loop_age_ns) == (7, 3)
    assert merge_metrics("job", graph, []).instances == ()
    made.close()
