"""Simulated runs in which every step ends wherever it may: between any two batches that an operator puts out.

Of buckets, which are many and small, a step looks at one: rows wait at most markers of moves.
"""

from pathlib import Path

import pytest

from penstock.engine.dataflow import instance
from penstock.engine.operators.process import rows
from penstock.engine.paging import paged_operator
from penstock.engine.paging.options import PagingOptions
from tests.engine.executors.test_simulated_moves import IN_MEMORY, MOVING, check, moving

SEEDS = range(1, 9)
SMALL = PagingOptions(None, 2_000, 1_500)


@pytest.mark.parametrize("options", [IN_MEMORY, SMALL], ids=["large buckets", "small buckets"])
@pytest.mark.parametrize("name", MOVING)
def test_what_comes_between_the_parts_of_a_batch_does_not_show(
    name: str, options: PagingOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (instance, rows, paged_operator):
        monkeypatch.setattr(module, "SLICE_NS", 0)
    simulation = moving(name, tmp_path, options)
    check([simulation.run(seed) for seed in SEEDS])
