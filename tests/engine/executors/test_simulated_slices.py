"""Simulated runs in which every step ends wherever it may: between any two batches that an operator puts out.

Of buckets, which are many and small, a step looks at one: rows wait at most markers of moves.
"""

from pathlib import Path

import pytest

from penstock.engine.paging.options import PagingOptions
from tests.engine.executors.test_simulated_moves import IN_MEMORY, MOVING, SMALL, check, end_steps_early, moving

SEEDS = [
    pytest.param(range(1, 9), id="a few"),
    pytest.param(range(9, 33), id="many", marks=pytest.mark.long("24 seeds more of each; eight stay")),
]


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("options", [IN_MEMORY, SMALL], ids=["large buckets", "small buckets"])
@pytest.mark.parametrize("name", MOVING)
def test_what_comes_between_the_parts_of_a_batch_does_not_show(
    name: str, options: PagingOptions, seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_steps_early(monkeypatch)
    simulation = moving(name, tmp_path, options)
    check([simulation.run(seed) for seed in seeds])
