"""Every two policies that may decide together, drilled on the simulated cluster as a job has them, in seven shapes.

docs/design/controllers.md 7 has the rules.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.steered import SteeredRecord, SteeredRun
from penstock.model.columns import Bools
from penstock.model.plan import RescalePlan
from penstock.scheduler.ownership import Resource
from tests.benchmarks.papers.drilled_policies import (
    GROWS_S,
    KEEPS,
    PLACES,
    SHRINKS_S,
    due_s,
    job_loop,
    legal_pairs,
    owner_of,
    representatives,
    sizes,
)
from tests.benchmarks.papers.drills import (
    BACKLOG,
    BASE,
    HIGH,
    LOST_S,
    LOW,
    MINIMUM,
    PARTITIONS,
    SHAPES,
    SINE_S,
    STEP_S,
    changes,
    cores,
    drilled,
    instances,
    lag,
    shed_share,
    times,
)
from tests.long_cases import but_for

pytestmark = pytest.mark.slow

PAIRS = legal_pairs()
WARM_S = 30.0
"""By then who sheds knows what a row takes."""
NOTHING = 0.005
"""A smaller share is none: what a shedder keeps by a rate below one while it learns."""


def some(shape: str) -> list[Any]:
    """Return all pairs, of which ``make test`` tries some of each policy."""
    return but_for(PAIRS, representatives(shape), "each policy is drilled in this shape beside another one")


def check_one_at_a_time(run: SteeredRun, *names: str) -> None:
    """Assert that actions keep the cool-down, that each decides its own, and that none failed to begin."""
    scalers = [name for name in names if sizes(name)]
    acted = sorted({record.time_s for name in scalers for record in run.acted(name)})
    cool_down_s = job_loop(names).cool_down_s
    assert all(later - sooner >= cool_down_s for sooner, later in pairwise(acted))
    tasks, whole = owner_of(Resource.PARALLELISM, names), owner_of(Resource.ALLOCATIONS, names)
    for name, plan in rescaled(run, *scalers):
        assert name == whole or not any(given.cores or given.memory_bytes for given in plan.applications)
        assert name == tasks or (not plan.tasks and all(given.threads is None for given in plan.applications))
    assert not [
        r for r in run.records if r.outcome is not None and r.outcome.result == "refused" and r.decision.expectations
    ]


def rescaled(run: SteeredRun, *scalers: str) -> Iterator[tuple[str, RescalePlan]]:
    """Yield what was done of sizes, with who decided it."""
    for name in scalers:
        for record in run.acted(name):
            assert isinstance(record.decision.allowed, RescalePlan)
            yield name, record.decision.allowed


def check_placed(run: SteeredRun) -> None:
    """Assert that in the end all instances run, on machines that are there."""
    last = run.records[-1].decision.snapshot
    assert last.instances.is_running.all()
    if last.machines.heartbeat_age_s is not None:
        assert (last.machines.heartbeat_age_s[last.instances.machine] < 10.0).all()


def after(run: SteeredRun, time_s: float) -> Bools:
    """Return which reports are later."""
    assert time_s < times(run)[-1], "the drill ends before that"
    return np.asarray(times(run) > time_s, np.bool_)


def is_read(run: SteeredRun, rate: float) -> bool:
    """Return whether in the end no more waits than comes in a second."""
    return bool(lag(run)[-10:].max() <= rate)


@pytest.mark.parametrize(("one", "other"), some("flat"))
def test_under_a_flat_load_nobody_acts(one: str, other: str) -> None:
    run = drilled("flat", one, other)
    assert not run.acted(one) and not run.acted(other)
    assert changes(run) == 0 and shed_share(run) < NOTHING and is_read(run, BASE)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_after_a_step_up_there_is_enough_in_time_and_shedding_ends(one: str, other: str) -> None:
    names = (one, other)
    run = drilled("step up", *names)
    check_one_at_a_time(run, *names)
    check_placed(run)
    sizing, whole = owner_of(Resource.PARALLELISM, names), owner_of(Resource.ALLOCATIONS, names)
    sheds = bool({*names} & {*KEEPS})
    assert instances(run)[~after(run, STEP_S)].max() == 1 and shed_share(run, 0.0, STEP_S) < NOTHING
    if sizing is None:
        assert sheds and 0.3 < shed_share(run, STEP_S + 30.0) < 1 - MINIMUM
        return
    assert instances(run)[after(run, STEP_S + due_s(sizing, names, GROWS_S))].min() >= 2
    assert instances(run).max() <= PARTITIONS
    if whole is not None:
        assert cores(run)[after(run, STEP_S + due_s(whole, names, GROWS_S))].min() >= HIGH / 1000
    shed = shed_share(run, STEP_S, STEP_S + due_s(sizing, names, GROWS_S))
    assert shed > 2 * NOTHING if sheds else shed < NOTHING
    assert is_read(run, HIGH) and shed_share(run, times(run)[-1] - 60.0) < NOTHING
    if {*names} & {*PLACES}:
        assert run.acted(PLACES[0])


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_after_a_step_down_what_is_not_needed_is_given_back(one: str, other: str) -> None:
    names = (one, other)
    run = drilled("step down", *names)
    check_one_at_a_time(run, *names)
    sizing, whole = owner_of(Resource.PARALLELISM, names), owner_of(Resource.ALLOCATIONS, names)
    assert (instances(run)[~after(run, STEP_S)] == 2).all() and is_read(run, LOW)
    assert shed_share(run, WARM_S) < NOTHING
    if sizing is None:
        assert (instances(run) == 2).all()
    else:
        assert (instances(run)[after(run, STEP_S + due_s(sizing, names, SHRINKS_S))] == 1).all()
    if whole is not None:
        assert cores(run)[after(run, STEP_S + due_s(whole, names, SHRINKS_S))].max() <= 2 * LOW / 1000


@pytest.mark.parametrize(("one", "other"), some("sine"))
def test_on_a_sine_sizes_follow_and_do_not_swing(one: str, other: str) -> None:
    names = (one, other)
    run = drilled("sine", *names)
    check_one_at_a_time(run, *names)
    sizing, whole = owner_of(Resource.PARALLELISM, names), owner_of(Resource.ALLOCATIONS, names)
    periods = times(run)[-1] / SINE_S
    assert (0 if sizing is None else 1) <= changes(run) <= 2 * periods
    assert instances(run).max() <= PARTITIONS and is_read(run, BASE)
    if whole is not None:
        assert np.count_nonzero(np.diff(cores(run))) <= 2 * periods
    if {*names} & {*KEEPS} and sizing is not None:
        (sheds,) = {*names} & {*KEEPS}
        alone = shed_share(drilled("sine", sheds), SINE_S / 2)
        assert alone > 0.1 and shed_share(run, SINE_S / 2) < 0.5 * alone


@pytest.mark.parametrize(("one", "other"), some("slow service"))
def test_while_a_service_is_slow_rows_wait_and_nothing_grows_nor_is_shed(one: str, other: str) -> None:
    names = (one, other)
    run = drilled("slow service", *names)
    check_one_at_a_time(run, *names)
    is_slow = after(run, STEP_S) & ~after(run, 2 * STEP_S)
    assert lag(run)[is_slow].max() > 10_000
    assert instances(run)[is_slow].max() == 1 and cores(run)[is_slow].max() == cores(run)[0]
    assert not [r for name in names for r in run.acted(name) if STEP_S < r.time_s <= 2 * STEP_S]
    assert shed_share(run) < NOTHING and is_read(run, BASE)


@pytest.mark.parametrize(("one", "other"), some("machine lost"))
def test_what_was_on_a_lost_machine_is_placed_again_and_nobody_waits_to_decide(one: str, other: str) -> None:
    """A job always has somebody who places; it still settles after its start when the machine is lost."""
    names = tuple(dict.fromkeys((one, other, PLACES[0])))
    run = drilled("machine lost", *names)
    check_placed(run)
    assert all(name != "tm1" for name in _machines_used(run))
    (first, *_) = run.acted(PLACES[0])
    assert LOST_S + 10.0 < first.time_s <= LOST_S + 11.0
    for name in filter(sizes, names):
        assert _first(run, name).time_s == first.time_s < SHAPES["machine lost"].loop["cool_down_s"]
    assert is_read(run, BASE) and shed_share(run, times(run)[-1] - 30.0) < NOTHING


@pytest.mark.parametrize(("one", "other"), some("cold start"))
def test_a_backlog_at_a_cold_start_is_worked_off_and_not_shed(one: str, other: str) -> None:
    names = (one, other)
    run = drilled("cold start", *names)
    check_one_at_a_time(run, *names)
    assert lag(run)[1] > 0.9 * BACKLOG and is_read(run, BASE)
    old_s = times(run)[np.searchsorted(run.series.task("fetched", "rows").cumsum(), BACKLOG)]
    assert shed_share(run, 0.0, old_s) < NOTHING
    steps = [later / sooner for sooner, later in pairwise(instances(run)) if later != sooner]
    assert max(steps, default=1.0) <= 3.0


def _machines_used(run: SteeredRun) -> set[str]:
    last = run.records[-1].decision.snapshot
    return {last.machines.name[machine] for machine in last.instances.machine.tolist()}


def _first(run: SteeredRun, name: str) -> SteeredRecord:
    return next(record for record in run.records if record.decision.policy == name)
