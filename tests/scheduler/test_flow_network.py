"""The flow network of a chain against its closed form: the narrowest task is what it carries, and what is blamed.

Behind a split each branch carries its own part, and what is short in any is blamed.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.scheduler.flow_network import Layer, allocate, in_stages
from penstock.scheduler.operator_network import ENOUGH, LOG
from tests.papers_cases import cases


def random_layers(seed: int) -> list[Layer]:
    random = np.random.default_rng(seed)
    layers = []
    for task in range(int(random.integers(1, 6))):
        count = int(random.integers(1, 6))
        most = random.uniform(0.05, 1.0, count) * random.choice([0.5, 1.0, 2.0])
        shares = random.dirichlet(np.ones(count))
        is_free = bool(random.random() < 0.6)
        layers.append(Layer.of(task, np.arange(count, dtype=np.int32), most, shares, is_free, (task - 1,)))
    flow = float(random.uniform(0.01, 1)) * min(layer.whole for layer in layers)
    return [Layer.of(x.task, x.instances, x.capacity, x.flow * flow, x.is_free, x.after) for x in layers]


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1), st.floats(0.85, 1.0))
def test_a_chain_carries_its_narrowest_layer_and_lambda_names_those_nearly_as_narrow(
    seed: int, saturated: float
) -> None:
    layers = random_layers(seed)
    carried = min(1.0, *(layer.whole for layer in layers))
    allocation = allocate(layers, saturated)
    assert allocation.value == pytest.approx(carried, rel=1e-6) and allocation.paced == pytest.approx(carried, rel=1e-9)
    named = [layers[short.place] for short in allocation.bottlenecks]
    short = [x for x in layers if x.whole < ENOUGH and carried >= ENOUGH * saturated * x.whole]
    assert named == sorted(short, key=lambda layer: layer.whole)
    assert [x.whole for x in allocation.bottlenecks] == pytest.approx([layer.whole for layer in named])


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_what_is_handed_out_fits_and_is_all_that_each_layer_can_carry(seed: int) -> None:
    layers = random_layers(seed)
    allocation = allocate(layers, 0.85)
    for place, layer in enumerate(layers):
        flows = allocation.flow(place)
        assert np.all(flows >= 0) and np.all(flows <= layer.capacity * (1 + 1e-6))
        assert flows.sum() == pytest.approx(min(1.0, layer.whole), rel=1e-6)
        if not layer.is_free:
            assert flows / flows.sum() == pytest.approx(layer.flow / layer.flow.sum())


def test_what_is_there_stays_and_lanes_take_more_as_their_room_allows() -> None:
    """0.4 are there, two lanes have room for 0.7 together; behind them 0.6 fit."""
    layers = [
        Layer.of(0, np.arange(2, dtype=np.int32), np.array([0.7, 0.4]), np.array([0.3, 0.1]), True, (LOG,)),
        Layer.of(1, np.arange(1, dtype=np.int32), np.array([0.6]), np.array([0.4]), False, (0,)),
    ]
    assert in_stages(layers) == [[0], [1]]
    allocation = allocate(layers, 0.85)
    assert allocation.value == pytest.approx(0.6)
    # At the need the first layer has no other choice than to be full in proportion to its room.
    assert allocation.flow(0) == pytest.approx(np.array([0.3, 0.1]) + np.array([0.4, 0.3]) * 0.6 / 0.7)


def test_nothing_is_a_bottleneck_of_no_flow() -> None:
    layers = [Layer.of(0, np.arange(1, dtype=np.int32), np.array([0.0]), np.array([0.0]), True, (LOG,))]
    assert allocate(layers, 0.85).bottlenecks == ()


def branched(*wholes: float, saturated: float = 0.85) -> tuple[float, float, list[int]]:
    """Return value, pace and the bottlenecks, by place, of a task (the first) whose rows go to all others."""
    layers = [
        Layer.of(task, np.zeros(1, np.int32), np.array([whole]), np.array([0.01]), True, (0 if task else LOG,))
        for task, whole in enumerate(wholes)
    ]
    allocation = allocate(layers, saturated)
    return allocation.value, allocation.paced, [short.place for short in allocation.bottlenecks]


def test_branches_that_are_short_are_named_together() -> None:
    """0.4 holds the source up so far; with that mended it would be 0.6, and is mended with it."""
    assert branched(1.0, 0.6, 2.0, 0.4) == (pytest.approx((0.6 + 1 + 0.4) / 3), 0.4, [3, 1])


def test_what_paces_all_branches_is_named_though_a_wider_cut_is_less() -> None:
    """Of ten branches one carries 0.2: most ways are held up by the 0.6 of the first task, but the branch paces it."""
    assert branched(0.6, *[1.0] * 9, 0.2) == (pytest.approx(0.6), 0.2, [10, 0])
    assert branched(0.6, *[1.0] * 9, 0.8)[2] == [0]


def test_a_branch_of_few_ways_is_seen() -> None:
    """Each split halves nothing: of 40 ends one after the other, the last is as visible as the first."""
    layers = []
    for level in range(40):
        above = (2 * level - 2,) if level else (LOG,)
        for task, whole in ((2 * level, 2.0), (2 * level + 1, 0.5 if level == 39 else 2.0)):
            after = above if task % 2 == 0 else (2 * level,)
            layers.append(Layer.of(task, np.zeros(1, np.int32), np.array([whole]), np.array([0.5]), True, after))
    allocation = allocate(layers, 0.85)
    assert allocation.paced == 0.5 and [short.place for short in allocation.bottlenecks] == [79]
    assert allocation.value == pytest.approx(1 - 0.5 / 40)
