"""Runs that shed at random rates under faults: what is committed is what their logs say was kept, and nothing else.

Some drop and admit stretches of rows at random besides, as a shedder by SIC does.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import penstock as ps
from penstock import col
from penstock.engine.dataflow.partition_sample import PartitionSample
from penstock.engine.executors.simulated import SeedResult, Simulation, record_pipeline
from penstock.engine.executors.simulation.faults import Faults
from penstock.model.sampling import Drawn
from tests.engine.executors.simulated_support import ROWS, read
from tests.long_cases import but_for

pytestmark = pytest.mark.xdist_group("simulated")

SEEDS = range(1, 251)

POINTS = {
    "kept.before_write",
    "kept.written",
    "checkpoint.manifest.before_publish",
    "checkpoint.manifest.published",
    "checkpoint.before_commit",
    "checkpoint.after_commit",
    "instance.barrier.passed",
}
"""Failpoints at which power must be lost at least once."""


def filtered(job: ps.Job) -> None:
    """Two pipelines that share no channel, of operators without state, one behind an exchange."""
    dear = read(job, 1, "these").filter(col("value") >= 200).select("key", "value").name("dear")
    dear.rebalance().select("value").name("values").collect().name("out").with_min_accuracy(0.1, columns=False)
    read(job, 2, "those").select("key").name("keys").collect().name("beside").with_min_accuracy(0.1, columns=False)


def parted(job: ps.Job) -> None:
    """Queries of several contracts behind one source: branches of branches, behind an exchange, and one not at all."""
    rows = read(job, 3, "rows").filter(col("value") >= 50).name("some")
    rows.select("key", "value").name("whole").collect().name("all")
    few = rows.split(few=col("value") < 900)["few"].filter(lambda value: value % 9 > 0).name("few")
    few.select("value").name("values").collect().name("values out").with_min_accuracy(0.3, columns=False)
    few.rebalance().select("key").name("keys").collect().name("out").with_min_accuracy(0.1, columns=False)


def visits(job: ps.Job) -> None:
    """Sessions whose rows are dropped by their keys, beside a query of the same rows that is shed on its own branch."""
    rows = read(job, 4, "rows").select("key", "value", "at").name("all")
    found = rows.key_by("key").window(ps.session("2s")).agg(n=ps.count(), total=ps.sum_("value")).name("visits")
    found.collect().name("out").with_min_accuracy(0.1)
    rows.select("value").name("values").collect().name("beside").with_min_accuracy(0.3, columns=False)


def weighed(job: ps.Job) -> None:
    """Estimates of windows and of groups from rows that were dropped each by itself, a query on its own branch."""
    rows = read(job, 5, "rows", 4 * ROWS).select("key", "value", "at").name("all")
    minutes = rows.key_by(side=col("key") % 2).window(ps.tumbling("30s"))
    windows = minutes.agg(n=ps.count(), total=ps.sum_("value"), mean=ps.mean("value")).name("windows")
    windows.collect().name("out").with_min_accuracy(0.1)
    totals = rows.filter(col("value") < 900).key_by("key").agg(n=ps.count(), total=ps.sum_("value")).name("totals")
    totals.collect().name("beside").with_min_accuracy(0.3)


def dealt(job: ps.Job) -> None:
    """The same estimates, but that the records of each partition draw their steps from packs, which rows tell."""
    rows = read(job, 6, "rows", 4 * ROWS).select("key", "value", "at").name("all")
    minutes = rows.key_by(side=col("key") % 2).window(ps.tumbling("30s"))
    windows = minutes.agg(n=ps.count(), total=ps.sum_("value"), mean=ps.mean("value")).name("windows")
    windows.collect().name("out").with_min_accuracy(0.1, strata="partition")
    rows.rebalance().select("value").name("values").collect().name("beside").with_min_accuracy(0.3, columns=False)


PIPELINES = {"filtered": filtered, "parted": parted, "visits": visits, "weighed": weighed, "dealt": dealt}


@cache
def simulation(pipeline: str, managed: bool, admits: bool = False) -> Simulation:
    job = ps.Job()
    PIPELINES[pipeline](job)
    made = Simulation(record_pipeline(job.graph, 10_000), faults=Faults(), managed=managed)
    made.sheds, made.admits = True, admits
    return made


@pytest.mark.parametrize(
    ("pipeline", "managed"),
    but_for(
        product(PIPELINES, (False, True)),
        [*product(("filtered", "parted", "dealt"), (False, True)), ("weighed", False)],
        "sessions take seconds a seed; tests/contracts/executors/test_key_sampling.py has them on real executors",
    ),
)
def test_the_committed_output_is_what_the_log_says_was_kept(pipeline: str, managed: bool) -> None:
    results = [simulation(pipeline, managed).run(seed) for seed in range(1, 11)]
    agree(results)
    assert sum(result.crashes for result in results) > len(results)


@pytest.mark.parametrize("managed", [False, True])
@pytest.mark.parametrize("pipeline", ["filtered", "parted"])
def test_stretches_that_were_admitted_at_random_are_those_of_the_log(pipeline: str, managed: bool) -> None:
    results = [simulation(pipeline, managed, admits=True).run(seed) for seed in range(1, 9)]
    agree(results)
    assert sum(result.crashes for result in results) > len(results)
    assert sum(any("is admitted" in line for line in result.story) for result in results) >= len(results) / 4


def test_draws_that_are_not_those_of_the_log_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shedder that deals anew behind each read, and says that it went on."""
    simulated = simulation("dealt", managed=False)
    draw = PartitionSample._draw

    def forgetful(self: PartitionSample, offsets: NDArray[np.int64], keys: Sequence[bytes | None] | None) -> Drawn:
        since = None if self._draws is None else self._draws.since
        self._draws = None
        drawn = draw(self, offsets, keys)
        return drawn if since is None else replace(drawn, since=since)

    monkeypatch.setattr(PartitionSample, "_draw", forgetful)
    assert any(simulated.run(seed).problem for seed in range(1, 4))


@pytest.mark.long("some hundreds of seeds lose power at every step of the log")
def test_power_is_lost_around_every_step_of_the_log() -> None:
    results = [
        simulation(pipeline, managed, admits=seed % 2 == 0).run(seed)
        for pipeline in PIPELINES
        for managed in (False, True)
        for seed in SEEDS
    ]
    agree(results)
    crashed: Counter[str] = Counter()
    for result in results:
        crashed.update(result.crashed_at)
    assert not POINTS - crashed.keys()


def agree(results: Sequence[SeedResult]) -> None:
    for result in results:
        assert (result.seed, result.problem) == (result.seed, None), "\n".join(result.story)
