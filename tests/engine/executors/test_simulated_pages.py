"""The simulator with state in buckets: what is evicted, split, frozen, uploaded and restored comes out the same.

``PENSTOCK_PAGED_SEEDS`` sets how many seeds each pipeline gets; it is 100 before a version.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from penstock.engine.executors.simulation.paged import SimulatedPaging
from penstock.engine.paging.options import PagingOptions
from tests.engine.executors.simulated_support import PIPELINES, simulation
from tests.long_cases import but_for

SEEDS = range(1, 1 + int(os.environ.get("PENSTOCK_PAGED_SEEDS", "5")))
POINTS = {"pages.bucket.before_write", "pages.flush.segment", "pages.snapshot.done", "pages.cut.written"}


LONG = ("sessions", "nested", "joined", "near")


@pytest.mark.parametrize(
    "name", but_for(PIPELINES, {*PIPELINES} - {*LONG}, "many pages move; [counted], [tumbled] and [apart] stay")
)
def test_every_seed_puts_out_what_the_undisturbed_run_does(name: str, tmp_path: Path) -> None:
    paged = simulation(name, paging=SimulatedPaging(tmp_path))
    results = [paged.run(seed) for seed in SEEDS]
    assert [(result.seed, result.problem) for result in results if result.problem is not None] == []
    assert paged.expected["out"].num_rows == simulation(name).expected["out"].num_rows
    passed = sum((Counter(result.passed) for result in results), Counter())
    assert set(passed) >= POINTS
    assert paged.run(1).trace == results[0].trace
    if name == "apart":
        told = [line for result in results for line in result.story if "RESTARTED" in line]
        assert any("while the rest ran on" in line for line in told)


@pytest.mark.parametrize(
    "name", but_for(PIPELINES, {*PIPELINES} - {*LONG}, "many buckets; [counted], [tumbled] and [apart] stay")
)
@pytest.mark.parametrize("inline_bytes", [0, 1 << 16])
def test_so_it_is_of_buckets_in_memory(name: str, inline_bytes: int, tmp_path: Path) -> None:
    options = PagingOptions(bucket_bytes=1_500, inline_bytes=inline_bytes)
    kept = simulation(name, paging=SimulatedPaging(tmp_path, options))
    results = [kept.run(seed) for seed in SEEDS]
    assert [(result.seed, result.problem) for result in results if result.problem is not None] == []
    passed = sum((Counter(result.passed) for result in results), Counter())
    assert set(passed) >= {"images.bucket.before_write", "images.cut.written"}
    assert set(passed).isdisjoint(POINTS), "no page store was opened"
