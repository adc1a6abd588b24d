"""Simulated runs in which every step ends wherever it may: between any two batches that an operator puts out."""

from pathlib import Path

import pytest

from penstock.engine.dataflow import instance
from penstock.engine.operators.process import rows
from tests.engine.executors.test_simulated_moves import IN_MEMORY, MOVING, check, moving

SEEDS = range(1, 9)


@pytest.mark.parametrize("name", MOVING)
def test_what_comes_between_the_parts_of_a_batch_does_not_show(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (instance, rows):
        monkeypatch.setattr(module, "SLICE_NS", 0)
    simulation = moving(name, tmp_path, IN_MEMORY)
    check([simulation.run(seed) for seed in SEEDS])
