"""An application as a flow network, and the distribution of load in it (Flink-ER, 2.2, 2.3, 3.2). Called by `flink_er`.

All is in shares of need: 1 is what must enter a task if its sources read what they should, so selectivity falls out.
Tasks stand in series: a row passes all of them in a fixed proportion, and a branch is no alternative to another. What
is free is which instance of a task takes it, where the exchange leaves that open.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Floats, Ints
from penstock.scheduler.max_flow import FlowGraph, augment, cut_edges, reachable


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A task's instances: their rows in the snapshot, capacity and measured flow in shares of the task's need.

    ``is_free``: rows may go to any instance; otherwise each keeps its share of them (keys, partitions of a source).
    ``whole`` is the layer's capacity: of a free one the sum, else what its fullest instance allows, min_i c_i/share_i.
    """

    task: int
    instances: Ints
    capacity: Floats
    flow: Floats
    is_free: bool
    whole: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", self._whole())

    def _whole(self) -> float:
        total = float(self.flow.sum())
        if self.is_free or total <= 0:
            return self.balanced
        loaded = self.flow > 0
        return float((self.capacity[loaded] * total / self.flow[loaded]).min())

    @property
    def balanced(self) -> float:
        """The flow it could carry if shares followed capacities."""
        return float(self.capacity.sum())


def carried_flow(layers: Sequence[Layer]) -> float:
    """Return the flow that all layers carry now: the smallest of their flows, since the excess waits in queues."""
    return min((float(np.minimum(layer.flow, layer.capacity).sum()) for layer in layers), default=0.0)


def capacity(layers: Sequence[Layer]) -> float:
    """Return the capacity of the least cut between layers (Flink-ER, eqs 4 and 5): what the network can carry."""
    return min((layer.whole for layer in layers), default=0.0)


def bottlenecks(layers: Sequence[Layer], flow: float, saturated: float) -> list[Layer]:
    """Return the layers at whose cut f(X, Y) >= lambda c(X, Y) (Flink-ER, eq 11), the fullest layer first.

    ``saturated`` is lambda, in [0.85, 1]. Nothing is a bottleneck of no flow.
    """
    full = [layer for layer in layers if flow > 0 and flow >= saturated * layer.whole]
    return sorted(full, key=lambda layer: (layer.whole, layer.task))


def distributed_flow(layer: Layer, flow: float) -> Floats:
    """Return each instance's part of a flow: its present part, and the rest in proportion to spare capacity.

    The same value as augmenting along shortest paths, in one step; a layer that is not free keeps its shares.

    Raises:
        ValueError: the layer cannot carry it.
    """
    if flow > layer.whole * (1 + 1e-9):
        raise ValueError(f"task {layer.task} carries {layer.whole:.6g}, not {flow:.6g}")
    total = float(layer.flow.sum())
    if not layer.is_free:
        return layer.flow * (flow / total) if total > 0 else layer.capacity * (flow / max(layer.balanced, 1e-300))
    carried = np.minimum(layer.flow, layer.capacity)
    carried = carried * min(1.0, flow / max(float(carried.sum()), 1e-300))
    spare = layer.capacity - carried
    missing = max(flow - float(carried.sum()), 0.0)
    return carried + spare * (missing / max(float(spare.sum()), 1e-300))


def as_graph(layers: Sequence[Layer]) -> tuple[FlowGraph, list[list[int]]]:
    """Return the network as a graph, with the edges of each layer's instances; it goes from vertex 0 to the last.

    A hub lies between two layers and an instance is the edge between its hubs, which is its vertex split in two. A
    layer that is not free is one edge. The flow is what all layers carry now.
    """
    graph = FlowGraph(len(layers) + 1)
    flow = carried_flow(layers)
    edges = []
    for hub, layer in enumerate(layers):
        if layer.is_free:
            is_kept = np.minimum(layer.flow, layer.capacity)
            is_kept = is_kept * (flow / max(float(is_kept.sum()), 1e-300))
            pairs = zip(layer.capacity.tolist(), np.minimum(is_kept, layer.capacity).tolist(), strict=True)
            edges.append([graph.add(hub, hub + 1, most, now) for most, now in pairs])
        else:
            edges.append([graph.add(hub, hub + 1, layer.whole, min(flow, layer.whole))])
    return graph, edges


def augmented_flow(layers: Sequence[Layer], enough: float) -> tuple[float, list[Floats], list[int]]:
    """Distribute load by augmenting paths (Flink-ER, Algorithm 2): the value, each layer's flows, and the cut's layers.

    The last is empty if ``enough`` is carried; else layers with an edge in the minimum cut.
    """
    graph, edges = as_graph(layers)
    value = augment(graph, 0, len(layers), lambda reached: reached >= enough)
    flows = [np.array([graph.flow[edge] for edge in own]) for own in edges]
    if value >= enough:
        return value, flows, []
    cut = set(cut_edges(graph, reachable(graph, 0)))
    return value, flows, [place for place, own in enumerate(edges) if cut & set(own)]
