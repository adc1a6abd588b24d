"""Maximum flow against networkx, with lanes or without, from any flow that is there; and the minimum cut."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.scheduler.max_flow import FlowGraph, augment, cut_capacity, cut_edges, reachable, value
from tests.papers_cases import cases


def random_graph(seed: int) -> FlowGraph:
    random = np.random.default_rng(seed)
    graph = FlowGraph(int(random.integers(2, 9)))
    for _ in range(int(random.integers(0, 24))):
        tail, head = random.integers(0, graph.vertices, 2).tolist()
        if tail != head:
            lanes = int(random.integers(1, 4))
            graph.add(tail, head, random.choice([0.0, 1.0, 2.5, float(random.uniform(0, 10))], lanes))
    return graph


def check_flow(graph: FlowGraph, source: int, sink: int) -> None:
    net = np.zeros(graph.vertices)
    for tail, head, most, flow in zip(graph.tails, graph.heads, graph.capacity, graph.flow, strict=True):
        assert np.all(flow >= -1e-9) and np.all(flow <= most + 1e-9)
        net[tail] -= flow.sum()
        net[head] += flow.sum()
    inner = [vertex for vertex in range(graph.vertices) if vertex not in (source, sink)]
    assert np.allclose(net[inner], 0, atol=1e-9)


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_the_value_is_that_of_networkx_and_of_the_cut(seed: int) -> None:
    graph = random_graph(seed)
    sink = graph.vertices - 1
    oracle = nx.DiGraph()
    oracle.add_nodes_from(range(graph.vertices))
    for tail, head, most in zip(graph.tails, graph.heads, graph.capacity, strict=True):
        before = oracle.get_edge_data(tail, head, {"capacity": 0.0})["capacity"]
        oracle.add_edge(tail, head, capacity=before + float(most.sum()))
    reached = augment(graph, 0, sink)
    assert reached == pytest.approx(nx.maximum_flow_value(oracle, 0, sink), abs=1e-6)
    assert value(graph, 0) == pytest.approx(reached, abs=1e-9)
    check_flow(graph, 0, sink)
    side = reachable(graph, 0)
    assert sink not in side
    assert cut_capacity(graph, cut_edges(graph, side)) == pytest.approx(reached, abs=1e-6)


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1), st.floats(1, 3))
def test_augmenting_goes_on_from_the_flow_that_is_there_and_never_lowers_it(seed: int, factor: float) -> None:
    """A maximum flow stays one; with larger capacities it grows in proportion, from where it was."""
    graph = random_graph(seed)
    sink = graph.vertices - 1
    some = augment(graph, 0, sink)
    assert augment(graph, 0, sink) == pytest.approx(some)
    for edge, lanes in enumerate(graph.capacity):
        graph.widen(edge, lanes * factor)
    most = augment(graph, 0, sink)
    check_flow(graph, 0, sink)
    assert most >= some - 1e-9 and most == pytest.approx(some * factor, abs=1e-6)


def test_lanes_of_an_edge_take_what_their_room_allows() -> None:
    graph = FlowGraph(2)
    graph.add(0, 1, np.array([4.0, 2.0, 1.0]), np.array([1.0, 0.0, 1.0]))
    assert augment(graph, 0, 1) == pytest.approx(7.0)
    graph = FlowGraph(3)
    graph.add(0, 1, 4.5)
    graph.add(1, 2, np.array([4.0, 2.0, 1.0]))
    assert augment(graph, 0, 2) == pytest.approx(4.5)
    assert graph.flow[1] == pytest.approx(np.array([4.0, 2.0, 1.0]) * 4.5 / 7)


def test_what_is_no_edge_is_refused() -> None:
    graph = FlowGraph(2)
    with pytest.raises(ValueError, match="leaves the 2 vertices"):
        graph.add(0, 2, 1.0)
    with pytest.raises(ValueError, match="is not in"):
        graph.add(0, 1, 1.0, 2.0)
