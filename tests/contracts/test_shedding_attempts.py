"""Every executor: the same keep rates for sources, on whatever attempt and in whatever region they are set."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock import col
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.partition_sample import sampling_seed
from penstock.model.errors import BugError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.keep_rates import STEPS, KeepRates
from penstock.shedding.offset_sampling import sample_steps
from tests.contracts.attempts import EXECUTORS, LOOP, Bench, TwoRegions
from tests.long_cases import but_for


class TwoQueries(TwoRegions):
    """Two pipelines that share no channel, the rows of which may all be shed down to a quarter."""

    def plan(self) -> ExecutionGraph:
        job = ps.Job()
        for side, tap in self.taps.items():
            rows = ps.read(tap, job=job).name(side).filter(col("value") >= 0).name(f"{side} rows")
            rows.write(self.sinks[side]).name(f"{side} out").with_min_accuracy(0.25)
        return job.plan(2, apart=True)


@pytest.fixture(
    params=but_for(
        EXECUTORS,
        ["embedded", "simulated", "stepped"],
        "task managers for each test; others run whole jobs on them",
    )
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(str(request.param), tmp_path, job=TwoQueries())
    yield made
    made.end()


def kept(first: int, stop: int, keep: float) -> int:
    """Return how many of the values from ``first`` up to ``stop`` stay: they alternate between two partitions."""
    seed = sampling_seed("job", LOOP.seed)
    return sum(
        int((sample_steps(seed, str(part), np.arange(first // 2, stop // 2)) < keep * STEPS).sum()) for part in (0, 1)
    )


def read_and_shed(bench: Bench, side: str) -> tuple[int, int]:
    [line] = [line for line in bench.attempt.metrics().ledger.operators if line.operator == side]
    assert line.rows_in == line.passed + line.shed
    return line.rows_in, line.shed


def until_read(bench: Bench, side: str, rows: int) -> int:
    """Let it go on until a source has read so many rows; return how many of them were shed."""
    bench.until(lambda: read_and_shed(bench, side)[0] == rows)
    return read_and_shed(bench, side)[1]


def test_rates_hold_from_the_next_read_on_and_are_those_of_one_source(bench: Bench) -> None:
    taps = bench.job.taps
    taps["left"].send(*range(100))
    taps["right"].send(*range(100))
    assert (until_read(bench, "left", 100), until_read(bench, "right", 100)) == (0, 0)
    bench.attempt.set_keep(KeepRates({"left": 0.5}))
    bench.for_a_while()
    taps["left"].send(*range(100, 300))
    taps["right"].send(*range(100, 300))
    shed = 200 - kept(100, 300, 0.5)
    assert 60 < shed < 140
    assert (until_read(bench, "left", 300), until_read(bench, "right", 300)) == (shed, 0)
    bench.attempt.set_keep(KeepRates({"right": 0.25}))
    bench.for_a_while()
    taps["left"].send(*range(300, 400))
    taps["right"].send(*range(300, 400))
    assert until_read(bench, "left", 400) == shed
    assert until_read(bench, "right", 400) == 100 - kept(300, 400, 0.25)


def test_a_region_that_is_restored_sheds_as_was_said_last(bench: Bench) -> None:
    bench.attempt.set_keep(KeepRates({"left": 0.5, "right": 0.5}))
    bench.attempt.take_down(bench.tasks("left"), RuntimeError("gone"))
    bench.attempt.set_keep(KeepRates({"left": 0.25, "right": 0.5}))
    bench.attempt.restore(bench.tasks("left"), AttemptStart(attempt=2))
    for tap in bench.job.taps.values():
        tap.send(*range(200))
    assert until_read(bench, "left", 200) == 200 - kept(0, 200, 0.25)
    assert until_read(bench, "right", 200) == 200 - kept(0, 200, 0.5)


def test_what_may_not_be_shed_and_rates_out_of_range_are_refused(bench: Bench) -> None:
    for rates, message in (
        (KeepRates({"nobody": 0.5}), "'nobody', which is no source that"),
        (KeepRates({"left out": 0.5}), "'left out', which is no source that"),
        (KeepRates(branches={("left", "left rows"): 0.5}), "'left' > 'left rows', which is no branch that"),
        (KeepRates({"left": 0.3}), "no multiple of 1/64"),
        (KeepRates({"left": 1.25}), "no multiple of 1/64"),
    ):
        with pytest.raises(BugError, match=message):
            bench.attempt.set_keep(rates)
    bench.job.taps["left"].send(*range(10))
    assert until_read(bench, "left", 10) == 0
