"""An application as a flow network, the distribution of load in it, and its bottlenecks (Flink-ER, 2.2, 2.3, 3.2).

All is in shares of need: 1 is what must enter a task if its sources read what they should, so selectivity falls out.
Tasks stand in series: a row passes all of them in a fixed proportion, and a branch is no alternative to another. What
is free is which instance of a task takes it, where the exchange leaves that open. Called by `flink_er`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Floats, Ints
from penstock.scheduler.max_flow import FlowGraph, augment, cut_capacity, cut_edges, reachable

AMPLE = 100.0
"""More than so many needs nothing is asked to carry: capacities beyond are all alike, and none is infinite."""

ENOUGH = 1 - 1e-7
"""The share of the need that counts as all of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A task's instances: their rows in the snapshot, capacity and measured flow in shares of the task's need.

    ``is_free``: rows may go to any instance; otherwise each keeps its share of them (keys, partitions of a source).
    ``whole`` is the layer's capacity: of a free one the sum, else what its fullest instance allows, min_i c_i/share_i.
    ``follows``: every instance takes the rows of the same instance of that layer, by its place among the layers.
    """

    task: int
    instances: Ints
    capacity: Floats
    flow: Floats
    is_free: bool
    follows: int | None = None
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


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A layer at the head of a saturated cut, by its place, and the capacity of that cut."""

    place: int
    whole: float


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Load handed out along augmenting paths.

    ``value``: what the network carries of the need, at most 1. ``flows`` by layer and instance: what it is handed of
    the need, as far as it carries it itself. ``bottlenecks``: from the narrowest cut on; none if all is carried.
    """

    value: float
    flows: tuple[Floats, ...]
    bottlenecks: tuple[Bottleneck, ...]


def allocate(layers: Sequence[Layer], saturated: float) -> Allocation:
    """Reallocate the load of an application whose layers stand in the order of the data (Flink-ER, Algorithm 2).

    The present flow is augmented by shortest paths. If the need is not met then, the least cut names the bottleneck;
    with that raised to the need, so does the next least cut, as long as f(X, Y) >= lambda c(X, Y) with the flow as
    it is (eq 11). ``saturated`` is lambda, in [0.85, 1].
    """
    graph, stages = as_graph(layers)
    value = reached = augment(graph, 0, len(stages) + 1)
    bottlenecks: list[Bottleneck] = []
    lanes: dict[int, Floats] = {}
    while reached < ENOUGH:
        cut = [edge for edge in cut_edges(graph, reachable(graph, 0)) if edge]
        if not cut:
            break
        if value > 0 and value >= ENOUGH * saturated * (whole := cut_capacity(graph, cut)):
            bottlenecks += [Bottleneck(place, whole) for edge in cut for place in _narrowest(layers, stages[edge - 1])]
        for edge in cut:
            lanes[edge] = graph.flow[edge]
            graph.widen(edge, _raised(graph.capacity[edge]))
        reached = augment(graph, 0, len(stages) + 1)
    flows: list[Floats] = [layer.flow for layer in layers]
    for edge, stage in enumerate(stages, 1):
        for place in stage:
            flows[place] = _by_instance(layers[place], lanes.get(edge, graph.flow[edge]))
    return Allocation(min(value, 1.0), tuple(flows), tuple(bottlenecks))


def as_graph(layers: Sequence[Layer]) -> tuple[FlowGraph, list[list[int]]]:
    """Return the network as a graph that carries the present flow, and the places of the layers on its edges 1, 2, ...

    It goes from the log, vertex 0, to the last vertex. Edge 0 is the source's, with the rate that is offered; behind
    it a hub lies before and behind each exchange, and a bundle of lanes, an instance each, between them, which is its
    vertex split in two. Layers that follow another lengthen its lanes; what is not free is one lane.
    """
    stages: list[list[int]] = []
    stage_of: dict[int, int] = {}
    for place, layer in enumerate(layers):
        if layer.follows is None:
            stage_of[place] = len(stages)
            stages.append([place])
        else:
            stage_of[place] = stage_of[layer.follows]
            stages[stage_of[place]].append(place)
    lanes = [_lanes(layers, stage) for stage in stages]
    present = [np.minimum(flow, capacity) for capacity, flow in lanes]
    carried = min((float(flow.sum()) for flow in present), default=0.0)
    carried = min(carried, 1.0)
    graph = FlowGraph(len(stages) + 2)
    graph.add(0, 1, 1.0, carried)
    for hub, ((capacity, _), flow) in enumerate(zip(lanes, present, strict=True), 1):
        total = float(flow.sum())
        graph.add(hub, hub + 1, capacity, flow * (carried / total) if total > 0 else 0.0)
    return graph, stages


def _lanes(layers: Sequence[Layer], stage: Sequence[int]) -> tuple[Floats, Floats]:
    """Return capacities and present flows of a stage's lanes."""
    first = layers[stage[0]]
    if not first.is_free:
        return np.array([min(first.whole, AMPLE)]), np.array([float(first.flow.sum())])
    capacity = np.min([np.minimum(layers[place].capacity, AMPLE) for place in stage], axis=0)
    return capacity, first.flow


def _narrowest(layers: Sequence[Layer], stage: Sequence[int]) -> list[int]:
    """Return the layers of a stage at which its lanes are narrowest, the first where several are."""
    if len(stage) == 1:
        return list(stage)
    at = np.argmin([layers[place].capacity for place in stage], axis=0)
    return [stage[number] for number in np.unique(at).tolist()]


def _raised(capacity: Floats) -> Floats:
    """Return capacities that carry the need."""
    whole = float(capacity.sum())
    return capacity / whole if whole > 0 else np.full(len(capacity), 1.0 / len(capacity))


def _by_instance(layer: Layer, lanes: Floats) -> Floats:
    """Return each instance's part of the flow in a stage's lanes; a layer that is not free keeps its shares."""
    if layer.is_free:
        return lanes
    flow, total = float(lanes.sum()), float(layer.flow.sum())
    return layer.flow * (flow / total) if total > 0 else layer.capacity * (flow / max(layer.balanced, 1e-300))
