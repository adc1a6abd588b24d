"""Maximum flow against networkx, from any flow that is there already; and the minimum cut."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.scheduler.max_flow import FlowGraph, augment, cut_edges, reachable, value
from tests.papers_cases import cases


def random_graph(seed: int) -> FlowGraph:
    random = np.random.default_rng(seed)
    graph = FlowGraph(int(random.integers(2, 9)))
    for _ in range(int(random.integers(0, 24))):
        tail, head = random.integers(0, graph.vertices, 2).tolist()
        if tail != head:
            graph.add(tail, head, float(random.choice([0.0, 1.0, 2.5, random.uniform(0, 10)])))
    return graph


def check_flow(graph: FlowGraph, source: int, sink: int) -> None:
    net = np.zeros(graph.vertices)
    for tail, head, most, flow in zip(graph.tails, graph.heads, graph.capacity, graph.flow, strict=True):
        assert -1e-9 <= flow <= most + 1e-9
        net[tail] -= flow
        net[head] += flow
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
        oracle.add_edge(tail, head, capacity=before + most)
    reached = augment(graph, 0, sink)
    assert reached == pytest.approx(nx.maximum_flow_value(oracle, 0, sink), abs=1e-6)
    assert value(graph, 0) == pytest.approx(reached, abs=1e-9)
    check_flow(graph, 0, sink)
    side = reachable(graph, 0)
    assert sink not in side
    assert sum(graph.capacity[edge] for edge in cut_edges(graph, side)) == pytest.approx(reached, abs=1e-6)


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1), st.floats(0, 30))
def test_augmenting_never_lowers_the_value_and_stops_when_it_is_enough(seed: int, enough: float) -> None:
    graph = random_graph(seed)
    sink, values = graph.vertices - 1, []

    def is_enough(reached: float) -> bool:
        values.append(reached)
        return reached >= enough

    some = augment(graph, 0, sink, is_enough)
    assert values == sorted(values)
    check_flow(graph, 0, sink)
    most = augment(graph, 0, sink)
    assert most >= some - 1e-9 and (some >= enough or some == pytest.approx(most))


def test_what_is_no_edge_is_refused() -> None:
    graph = FlowGraph(2)
    with pytest.raises(ValueError, match="leaves the 2 vertices"):
        graph.add(0, 2, 1.0)
    with pytest.raises(ValueError, match="is not in"):
        graph.add(0, 1, 1.0, 2.0)
