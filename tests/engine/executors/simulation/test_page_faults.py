"""Faults of page files: each is loud, a restart recovers from it, and nothing that comes out is wrong."""

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.executors.simulation.faults import Faults
from penstock.engine.executors.simulation.history import History
from penstock.engine.executors.simulation.page_faults import FLIPPED, FULL, KINDS, MISREAD, TORN, PageFaults, PageFiles
from penstock.engine.executors.simulation.paged import SimulatedPaging, paging_of
from penstock.model.errors import RetryableError
from tests.engine.executors.simulated_support import simulation

DATA = bytes(range(200))


def faulty(tmp_path, kind):
    faults = PageFaults(Dice(5), History(ManualClock()), 1, happen=True)
    faults._next, faults._left = kind, 1
    return faults, PageFiles(tmp_path, faults)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    faults, files = faulty(tmp_path, FULL)
    with pytest.raises(RetryableError, match="No space left"):
        files.write("a", DATA)
    assert not files.exists("a")
    files.write("a", DATA)
    assert (files.read("a"), faults.struck, faults.damaged) == (DATA, 1, 0)


@pytest.mark.parametrize("kind", [TORN, FLIPPED])
def test_what_was_written_is_damaged_for_good(tmp_path, kind):
    faults, files = faulty(tmp_path, kind)
    assert files.write("a", DATA) == len(DATA)
    found = files.read("a")
    assert found != DATA
    assert files.read("a") == found
    assert DATA.startswith(found) if kind == TORN else len(found) == len(DATA)
    assert faults.damaged == 1


def test_a_bit_that_flips_while_it_is_read_is_whole_the_next_time(tmp_path):
    _, files = faulty(tmp_path, MISREAD)
    files.write("a", DATA)
    wrong = files.read("a")
    assert sum(bin(a ^ b).count("1") for a, b in zip(wrong, DATA, strict=True)) == 1
    assert files.read("a") == DATA


def test_without_disk_faults_nothing_strikes():
    faults = PageFaults(Dice(5), History(ManualClock()), 1, happen=False)
    for _ in range(100):
        faults.at_turn()
        assert faults.write(DATA) == faults.read(DATA) == DATA
    assert faults.struck == 0


def test_runs_with_damaged_pages_put_out_what_the_undisturbed_run_does(tmp_path):
    paged = simulation("counted", paging=SimulatedPaging(tmp_path), faults=Faults.of(["disk"]))
    told: list[str] = []
    for seed in range(1, 13):
        result = paged.run(seed)
        assert (result.seed, result.problem) == (seed, None)
        told += result.story
    kinds = {kind for kind in KINDS for line in told if f"FAULT page files: {kind}" in line}
    assert kinds == set(KINDS)
    assert any("started again" in line or "RESTARTED" in line for line in told)


@pytest.mark.parametrize("state_bytes", [1, 5_000, 1 << 20, 1 << 30])
def test_a_budget_gives_small_buckets(state_bytes):
    options = paging_of(state_bytes)
    assert options.budget_bytes == state_bytes
    assert 1_000 <= options.least_bucket_bytes <= 1 << 18
    assert options.waiting_bytes >= 1_000
