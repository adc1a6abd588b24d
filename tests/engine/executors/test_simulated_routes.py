"""Shares of rows that may go to any instance change at random in a simulated job: it puts out what it does without."""

from pathlib import Path

import pytest

import penstock as ps
from penstock import col, count, sum_
from penstock.engine.executors.simulated import Simulation, record_pipeline
from penstock.engine.executors.simulation.paged import SimulatedPaging
from penstock.engine.paging.options import PagingOptions
from tests.engine.executors.simulated_support import read

FEW = range(1, 7)
MANY = range(1, 201)


def spread(folder: Path, *, managed: bool, moves: bool = False) -> Simulation:
    """Return a job whose rows may go to any instance before they go by their keys."""
    job = ps.Job()
    passed = read(job, 11).rebalance().filter(col("value") < 900).name("passed")
    windows = passed.key_by("key").window(ps.tumbling("5s")).agg(n=count(), total=sum_("value")).name("windows")
    windows.collect().name("out")
    paging = SimulatedPaging(folder, PagingOptions())
    made = Simulation(record_pipeline(job.graph, 10_000), parallelism=3, managed=managed, paging=paging)
    made.routes, made.moves = True, moves
    return made


def check(simulation: Simulation, seeds: range) -> None:
    results = [simulation.run(seed) for seed in seeds]
    assert [(result.seed, result.problem) for result in results if result.problem is not None] == []
    assert sum(result.routes for result in results) > len(results)


@pytest.mark.parametrize("managed", [False, True], ids=["workers", "task managers"])
def test_a_few_seeds_put_out_what_the_undisturbed_run_does(managed: bool, tmp_path: Path) -> None:
    check(spread(tmp_path, managed=managed), FEW)


@pytest.mark.long("hundreds of seeds; test_a_few_seeds_put_out stays")
@pytest.mark.parametrize("managed", [False, True], ids=["workers", "task managers"])
def test_every_seed_puts_out_what_the_undisturbed_run_does(managed: bool, tmp_path: Path) -> None:
    check(spread(tmp_path, managed=managed, moves=True), MANY)
