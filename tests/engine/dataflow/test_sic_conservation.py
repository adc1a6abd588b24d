"""SIC is conserved through random pipelines: what sources give out for a query comes to its sink."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.dsl.aggregates import count
from penstock.dsl.job import Job
from penstock.dsl.readers import read
from penstock.dsl.stream import Stream
from penstock.dsl.windows import hopping, tumbling
from penstock.engine.core.elements import Sic
from penstock.engine.dataflow.worker import Done
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.operators.sink import SinkOperator
from penstock.engine.plan.query_routes import query_names
from penstock.model.config import LoopOptions
from penstock.model.expressions import col
from penstock.model.sic import SicTerms
from tests.engine.scripted import MS, Scripts, rows
from tests.engine.support import ManualClock

PARTITIONS = 7


def _steps(random: np.random.Generator, clock: ManualClock) -> Iterator[Any]:
    at = 0
    for _ in range(12):
        clock.advance_ns(int(random.integers(0, 120)) * MS)
        times = at + random.integers(0, 2_000_000, int(random.integers(1, 30)))
        at += 700_000
        yield rows(*times.tolist())


def _way(random: np.random.Generator, stream: Stream, other: Stream) -> Any:
    """Return a random pipeline behind one or two streams."""
    for _ in range(int(random.integers(0, 3))):
        match int(random.integers(0, 4)):
            case 0:
                stream = stream.filter(col("x") % 3 == 0)
            case 1:
                # Nothing survives of most batches.
                stream = stream.filter(col("x") > 25)
            case 2:
                stream = stream.rebalance().select("at", x=col("x") + 1)
            case 3:
                stream = stream.select("at", x=col("x") * 2)
    match int(random.integers(0, 9)):
        case 0:
            return stream.key_by("x").window(tumbling("1s")).agg(n=count())
        case 1:
            return stream.key_by("x").window(hopping("2s", "500ms")).agg(n=count())
        case 2:
            return stream.key_by("x").agg(n=count())
        case 3:
            return stream.union(other)
        case 4:
            # Two ways lead to one query.
            return stream.union(stream.filter(col("x") < 9))
        case 5:
            # Both sides bring SIC, and few rows have a partner.
            return stream.join(other, "x", window=tumbling("1s"))
        case 6:
            return stream.interval_join(other, "x", between=("-500ms", "1s"), how="left")
        case 7:
            return stream.join(other, "x")
    return stream


@pytest.mark.parametrize("parallelism", [1, 2, 7])
@pytest.mark.parametrize("seed", range(4))
def test_what_sources_give_out_comes_to_sinks(tmp_path: Path, seed: int, parallelism: int) -> None:
    random, clock, job = np.random.default_rng(seed), ManualClock(), Job()
    streams = []
    for number in range(2):
        partitions = {
            str(each): _steps(np.random.default_rng([seed, number, each]), clock) for each in range(PARTITIONS)
        }
        streams.append(read(Scripts(partitions), time="at", job=job).name(f"source {number}"))
    for number in range(3):
        results = _way(random, streams[number % 2], streams[1 - number % 2])
        results.write_black_hole(mode="changelog").name(f"query {number}")
    plan = job.plan(parallelism)
    loop = LoopOptions(batch_rows=16, channel_bytes=2_000)
    runs = EmbeddedJob(JobPlan("sic", plan, loop, tmp_path), clock=clock)
    names = query_names(plan.graph)
    shares = {f"source {number}": tuple(random.uniform(0.0, 1.0, len(names)).tolist()) for number in range(2)}
    build = runs.build
    for head in build.heads():
        # A source gives nothing out for a query that it does not feed.
        fed = _fed(build, head.name, names)
        shares[head.name] = tuple(sic * is_fed for sic, is_fed in zip(shares[head.name], fed, strict=True))
    build.set_sic(SicTerms(names, shares))
    while not isinstance(runs.worker.step(), Done):
        clock.advance_ns(MS)
    generated, delivered = np.zeros(len(names)), np.zeros(len(names))
    for head in build.heads():
        assert head.sic is not None
        generated += head.sic.generated
    for instance in build.instances:
        for node in instance.nodes:
            if isinstance(node.operator, SinkOperator) and (total := node.sic.total()):
                delivered += total
            assert not node.sic.holds
    assert generated.sum() > 0
    np.testing.assert_allclose(delivered, generated, rtol=1e-9)


def _fed(build: Any, source: str, names: tuple[str, ...]) -> Sic:
    graph = build.graph.graph
    reached = {node.id for node in graph.operators.values() if node.name == source}
    pending = list(reached)
    while pending:
        for consumer, _ in graph.consumers(pending.pop()):
            if consumer.id not in reached:
                reached.add(consumer.id)
                pending.append(consumer.id)
    found = {node.name for node in graph.operators.values() if node.id in reached}
    return tuple(float(name in found) for name in names)
