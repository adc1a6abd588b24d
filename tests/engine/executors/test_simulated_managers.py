"""A head and its task managers under faults put out what an undisturbed run does, and none of their seeds hangs."""

import hashlib
import os
import subprocess
import sys
from functools import cache

import pytest

from penstock.engine.executors.simulation.faults import Faults
from tests.engine.executors.simulated_support import PIPELINES, simulation
from tests.long_cases import but_for

pytestmark = pytest.mark.xdist_group("simulated managers")

FEW = range(1, 16)
MANY = range(1, 2_001)


@cache
def managed(name):
    """Return the simulation of a pipeline on task managers, made once."""
    return simulation(name, managed=True)


@cache
def few(name):
    """Run a pipeline under a few seeds, once."""
    return [managed(name).run(seed) for seed in FEW]


def problems(results):
    """Return what went wrong, by seed."""
    return [(result.seed, result.problem) for result in results if result.problem is not None]


@pytest.mark.parametrize("name", PIPELINES)
def test_a_few_seeds_put_out_what_the_undisturbed_run_does(name):
    assert problems(few(name)) == []


@pytest.mark.parametrize("name", but_for(PIPELINES, [], "two thousand seeds; fourteen seeds of each"))
def test_every_seed_puts_out_what_the_undisturbed_run_does(name):
    assert problems(managed(name).run(seed) for seed in MANY) == []


def test_the_seeds_kill_freeze_and_replace_on_either_side():
    told = "\n".join(line for name in PIPELINES for result in few(name) for line in result.story)
    for fault in (
        "tm-0 is killed",
        "is frozen for",
        "the head is killed",
        "power loss",
        "breaks",
        "RESTARTED",
        "leaves, as it was told to end",
    ):
        assert fault in told


def test_without_faults_nothing_goes_wrong():
    calm = simulation("tumbled", managed=True, faults=Faults.of(())).run(1)
    assert (calm.problem, calm.crashes) == (None, 0)
    assert not any("FAULT" in line for line in calm.story)


def test_a_seed_reproduces_its_trace_in_another_process():
    script = (
        "import hashlib; from tests.engine.executors.simulated_support import simulation; "
        "print(hashlib.sha256(simulation('tumbled', managed=True).run(5).trace.encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == hashlib.sha256(managed("tumbled").run(5).trace.encode()).hexdigest()
