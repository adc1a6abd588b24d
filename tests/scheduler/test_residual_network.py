"""Maximum flow against networkx on any graph, from any flow that is there; and the least cut."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.scheduler.residual_network import ResidualNetwork
from tests.papers_cases import cases

Edges = list[tuple[int, int]]


def random_network(seed: int) -> tuple[ResidualNetwork, Edges, int]:
    """Return a network, its edges and its sink; the source is 0."""
    random = np.random.default_rng(seed)
    vertices = int(random.integers(2, 9))
    drawn = [random.integers(0, vertices, 2).tolist() for _ in range(int(random.integers(0, 24)))]
    edges: Edges = [(tail, head) for tail, head in drawn if tail != head]
    capacities = [float(random.choice([0.0, 1.0, 2.5, random.uniform(0, 10)])) for _ in edges]
    network = ResidualNetwork(vertices, [(*ends, most, 0.0) for ends, most in zip(edges, capacities, strict=True)])
    return network, edges, vertices - 1


def most(network: ResidualNetwork, edges: Edges, sink: int) -> float:
    oracle = nx.DiGraph()
    oracle.add_nodes_from(range(sink + 1))
    for (tail, head), capacity in zip(edges, network.capacity, strict=True):
        before = oracle.get_edge_data(tail, head, {"capacity": 0.0})["capacity"]
        oracle.add_edge(tail, head, capacity=before + capacity)
    return float(nx.maximum_flow_value(oracle, 0, sink))


def check_flow(network: ResidualNetwork, edges: Edges, sink: int) -> None:
    net = np.zeros(sink + 1)
    for edge, (tail, head) in enumerate(edges):
        assert -1e-9 <= network.flow(edge) <= network.capacity[edge] + 1e-9
        net[tail] -= network.flow(edge)
        net[head] += network.flow(edge)
    assert np.allclose(net[1:sink], 0, atol=1e-9)
    assert network.value(0) == pytest.approx(-net[0], abs=1e-9)


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_the_value_is_that_of_networkx_and_of_the_cut(seed: int) -> None:
    network, edges, sink = random_network(seed)
    reached = network.augment(0, sink)
    assert reached == pytest.approx(most(network, edges, sink), abs=1e-6)
    check_flow(network, edges, sink)
    cut = network.cut()
    assert network.cut_capacity(cut) == pytest.approx(reached, abs=1e-6)
    cutting = nx.DiGraph([ends for edge, ends in enumerate(edges) if edge not in cut])
    cutting.add_nodes_from((0, sink))
    assert not nx.has_path(cutting, 0, sink)


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1), st.floats(1, 3))
def test_augmenting_goes_on_from_the_flow_that_is_there_and_never_lowers_it(seed: int, factor: float) -> None:
    """A maximum flow stays one; with larger capacities it grows in proportion, from where it was."""
    network, edges, sink = random_network(seed)
    some = network.augment(0, sink)
    assert network.augment(0, sink) == pytest.approx(some)
    for edge, capacity in enumerate(network.capacity):
        network.widen(edge, capacity * factor)
    more = network.augment(0, sink)
    check_flow(network, edges, sink)
    assert more >= some - 1e-9 and more == pytest.approx(some * factor, abs=1e-6)


def test_a_path_takes_back_what_another_way_can_carry() -> None:
    """0 -> 1 -> 3 carries all that it can; the second path needs 1 -> 3 for itself, and sends its flow by 2."""
    edges = [(0, 1, 1.0), (1, 3, 1.0), (1, 2, 0.0), (2, 4, 0.0), (0, 3, 0.0), (3, 4, 1.0)]
    network = ResidualNetwork(5, [(tail, head, 1.0, flow) for tail, head, flow in edges])
    assert network.augment(0, 4) == 2.0
    assert [network.flow(edge) for edge in range(6)] == [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]


def test_what_is_no_edge_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves the 2 vertices"):
        ResidualNetwork(2, [(0, 2, 1.0, 0.0)])
    with pytest.raises(ValueError, match="is not in"):
        ResidualNetwork(2, [(0, 1, 1.0, 2.0)])
