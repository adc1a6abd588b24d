"""Task managers are drained at random while a simulated job runs, and it puts out what it does undisturbed.

The long suite tries hundreds of seeds of each pipeline; ``PENSTOCK_DRAIN_SEEDS`` sets how many.
"""

import os
from pathlib import Path

import pytest

from penstock.engine.executors.managers.managed_growth import ManagedGrowth
from penstock.engine.executors.simulated import SeedResult, Simulation
from penstock.engine.executors.simulation.faults import ALL, Faults
from tests.engine.executors.simulated_support import in_parts, part_name
from tests.engine.executors.test_managed_moves import CALM
from tests.engine.executors.test_simulated_moves import MOVING
from tests.engine.executors.test_simulated_rescales import rescaled

PARTS = in_parts(int(os.environ.get("PENSTOCK_DRAIN_SEEDS", "100")))
CRASHES = Faults.of(("delay", "crash"))
"""Few enough for many drains to come to their end while the job runs."""

FEW = (1, 4, 6, 8, 14)
"""Seeds in which a task manager comes to go while the job runs, in one pipeline or another."""
MANY = (84, *range(1, 61))
"""Those of which one at least ends at once behind a drain, before the next checkpoint."""


def drained(name: str, folder: Path, faults: Faults = CALM, *, rescales: bool = False) -> Simulation:
    """Return a simulation of a job that is drained and moved all the time."""
    made = rescaled(name, folder, managed=True)
    made.faults, made.rescales, made.drains, made.moves = faults, rescales, True, True
    return made


def check(results: list[SeedResult], *, live: bool = True) -> None:
    assert [(result.seed, result.problem) for result in results if result.problem is not None] == []
    counted = [result.drains for result in results if result.drains is not None]
    assert sum(item.asked for item in counted) > 0
    if live:
        assert sum(item.live for item in counted) > 0


@pytest.mark.parametrize("name", ["tumbled", "slots", "joined"])
def test_a_few_seeds_put_out_what_the_undisturbed_run_does(name: str, tmp_path: Path) -> None:
    simulation = drained(name, tmp_path)
    check([simulation.run(seed) for seed in FEW])


def test_what_was_lost_strikes_before_a_change_goes_on_with_it(tmp_path: Path) -> None:
    """A task manager was lost in the same turn in which instances were to come, which would be joined to it."""
    assert drained("counted", tmp_path, ALL, rescales=True).run(3).problem is None


def test_task_managers_that_go_before_a_checkpoint_has_their_last_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plant a bug: what they brought before stands for what they would bring."""
    monkeypatch.setattr(ManagedGrowth, "_is_saved", lambda self, change: True)
    simulation = drained("tumbled", tmp_path, CRASHES, rescales=True)
    assert any(simulation.run(seed).problem is not None for seed in MANY)


@pytest.mark.long("hundreds of seeds; test_a_few_seeds_put_out_what_the_undisturbed_run_does")
@pytest.mark.parametrize("seeds", PARTS, ids=part_name)
@pytest.mark.parametrize("faults", [CRASHES, ALL], ids=["crashes", "all faults"])
@pytest.mark.parametrize("name", MOVING)
def test_every_seed_puts_out_what_the_undisturbed_run_does(
    name: str, faults: Faults, seeds: range, tmp_path: Path
) -> None:
    simulation = drained(name, tmp_path, faults, rescales=faults is ALL)
    check([simulation.run(seed) for seed in seeds], live=False)
