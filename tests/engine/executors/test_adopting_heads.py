"""A head that is killed between cut, publish and commit is followed by one that adopts its task managers: nothing is
lost, nothing comes twice. Bugs planted in that are found."""

from dataclasses import replace
from functools import cache

import pytest

from penstock.engine.executors.managers import deployments
from penstock.engine.executors.managers.deployed_parts import DeployedParts
from penstock.engine.executors.simulation.faults import HEAD_POINTS, Faults
from penstock.engine.executors.simulation.staged_sink import StagedSink
from tests.engine.executors.simulated_support import PIPELINES, simulation
from tests.long_cases import but_for

pytestmark = pytest.mark.xdist_group("simulated managers")

FEW = range(1, 11)
MANY = range(1, 101)
RARE = range(1, 301)
CALM = Faults.of(("delay",))
KILLS = 6


@cache
def adopting(name):
    """Return the simulation of a pipeline whose head is killed, made once."""
    return simulation(name, managed=True, head_kills=KILLS)


@cache
def few(name):
    """Run a pipeline under a few seeds, once."""
    return [adopting(name).run(seed) for seed in FEW]


def problems(results):
    """Return what went wrong, by seed."""
    return [(result.seed, result.problem) for result in results if result.problem is not None]


@pytest.mark.parametrize("name", ["tumbled", "apart"])
def test_heads_that_are_killed_lose_and_repeat_nothing(name):
    assert problems(few(name)) == []


@pytest.mark.parametrize("name", but_for(PIPELINES, [], "a hundred seeds of each; ten of two pipelines stay"))
def test_every_seed_puts_out_what_the_undisturbed_run_does(name):
    assert problems(adopting(name).run(seed) for seed in MANY) == []


def test_heads_are_killed_around_cut_publish_and_commit_and_task_managers_are_adopted():
    results = [result for name in ("tumbled", "apart") for result in few(name)]
    points = {name for result in results for name in result.crashed_at if name.startswith(HEAD_POINTS)}
    assert {"checkpoint.barriers.after", "checkpoint.manifest.published", "checkpoint.before_commit"} <= points
    told = [line for result in results for line in result.story]
    assert sum("ADOPTED" in line and "NOT ADOPTED" not in line for line in told) > len(results)


def adopt_by_recovering(patch):
    """A sink whose writers live is asked to recover."""
    patch.setattr(StagedSink, "adopt", lambda sink, epoch, receipts, claim: sink.recover(epoch or None, receipts))


def drop_receipts(patch):
    """Of what was handed over behind the last checkpoint the receipts are dropped."""
    cuts_of = deployments.cuts_of
    patch.setattr(deployments, "cuts_of", lambda held: [replace(cut, receipts={}) for cut in cuts_of(held)])


def forget_before_the_commit(patch):
    """A task manager lets go of receipts as soon as it has reported them."""
    keep = DeployedParts.keep

    def kept(parts, cut):
        keep(parts, cut)
        parts.committed(cut.epoch)

    patch.setattr(DeployedParts, "keep", kept)


def hear_barriers_at_once(patch):
    """What the first task managers say of barriers before the last is adopted is heard by nobody."""
    patch.setattr(deployments, "_OF_BARRIERS", ())


@pytest.mark.parametrize(
    ("plant", "name", "seeds"),
    [
        (adopt_by_recovering, "counted", RARE),
        (drop_receipts, "counted", RARE),
        (forget_before_the_commit, "counted", RARE),
        # The first hundred show nothing.
        (hear_barriers_at_once, "tumbled", range(101, 401)),
    ],
)
def test_a_planted_bug_is_found(plant, name, seeds, monkeypatch):
    undisturbed = simulation(name, managed=True, head_kills=KILLS, faults=CALM)
    plant(monkeypatch)
    found = next((seed for seed in seeds if undisturbed.run(seed).problem is not None), None)
    assert found is not None
    assert undisturbed.run(found).problem == undisturbed.run(found).problem
