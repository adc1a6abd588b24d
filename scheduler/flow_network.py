"""An application as a flow network, the distribution of load in it, and its bottlenecks (Flink-ER, 2.2, 2.3, 3.2).

All is in shares of need: 1 is what must enter a task if its sources read what they should, so selectivity falls out.
What is free is which instance of a task takes a row, where the exchange leaves that open; the search for paths and cuts
is over tasks (`operator_network`), and their instances are looked at once, at the end. Called by `flink_er`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.model.columns import Bools, Floats, Ints
from penstock.scheduler.operator_network import AMPLE, ENOUGH, LOG, OperatorNetwork


class LayerSums(NamedTuple):
    """What a layer's instances are together, in shares of need.

    ``whole`` is its capacity: of a free one the sum, else what its fullest instance allows, min_i c_i/share_i.
    ``balanced``: the flow it could carry if shares followed capacities; ``fullest``: what it carries with the shares
    that are measured, infinite if there are none; ``widest``: the capacity of the widest instance. ``flow``: the
    measured one; ``present``: as much of it as each instance has capacity for, none having more than `AMPLE`.
    """

    whole: float
    balanced: float
    fullest: float
    widest: float
    flow: float
    present: float


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A task's instances: their rows in the snapshot, capacity and measured flow in shares of the task's need.

    ``is_free``: rows may go to any instance; otherwise each keeps its share of them (keys, partitions of a source).
    ``after``: the places, among the layers, of those whose rows it takes, or `operator_network.LOG`. ``follows``: every
    instance takes the rows of the same instance of the layer at that place.
    """

    task: int
    instances: Ints
    capacity: Floats
    flow: Floats
    is_free: bool
    after: tuple[int, ...]
    follows: int | None
    sums: LayerSums

    @classmethod
    def of(
        cls, task: int, instances: Ints, capacity: Floats, flow: Floats, is_free: bool, after: tuple[int, ...]
    ) -> "Layer":
        """Return a layer with its sums, which follows no other."""
        (sums,) = sums_of(np.zeros(len(capacity), np.int32), capacity, flow, np.array([is_free]))
        return cls(task, instances, capacity, flow, is_free, after, None, sums)

    @property
    def whole(self) -> float:
        """Its capacity."""
        return self.sums.whole

    def asked(self, part: float) -> "Layer":
        """Return the layer as it is if this part of the need is asked of it, above 1 more than the need."""
        sums = LayerSums(*[figure / part for figure in self.sums])
        return replace(self, capacity=self.capacity / part, flow=self.flow / part, sums=sums)


def sums_of(group: Ints, capacity: Floats, flow: Floats, is_free: Bools) -> list[LayerSums]:
    """Return the sums of groups of instances: ``is_free`` is by group, all else by instance.

    Of a group without figures they are NaN.
    """
    groups = len(is_free)
    balanced, total = np.bincount(group, capacity, groups), np.bincount(group, flow, groups)
    present = np.bincount(group, np.minimum(flow, np.minimum(capacity, AMPLE)), groups)
    fullest, widest = np.full(groups, np.inf), np.zeros(groups)
    np.maximum.at(widest, group, capacity)
    loaded = flow > 0
    np.minimum.at(fullest, group[loaded], capacity[loaded] * total[group[loaded]] / flow[loaded])
    whole = np.where(is_free | ~(total > 0), balanced, fullest)
    columns = (whole, balanced, fullest, widest, total, present)
    return [LayerSums(*sums) for sums in zip(*[column.tolist() for column in columns], strict=True)]


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A layer at the head of a saturated cut, by its place, and its capacity."""

    place: int
    whole: float


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Load handed out along augmenting paths.

    ``value``: what flows through the network, at most 1. ``paced``: what comes through of the need where all branches
    behind a split keep the pace of the slowest, as a full one holds up what feeds it; of a series both are the same.
    ``bottlenecks``: from the narrowest on; none if all is carried.
    """

    value: float
    paced: float
    bottlenecks: tuple[Bottleneck, ...]
    _layers: Sequence[Layer]
    _stages: Sequence[Sequence[int]]
    _began: float

    def flow(self, place: int) -> Floats:
        """Return by instance what the layer at a place is handed of the need, as far as it carries it itself."""
        layer, (stage,) = self._layers[place], [stage for stage in self._stages if place in stage]
        return _by_instance(layer, *_handed(self._layers, stage, self._began))


def allocate(layers: Sequence[Layer], saturated: float) -> Allocation:
    """Reallocate the load of an application whose layers stand in the order of the data (Flink-ER, Algorithm 2).

    The present flow is augmented. If the need is not met then, the least cut names the bottlenecks; with them raised to
    the need, so does the next least cut, as long as f(X, Y) >= lambda c(X, Y) with the flow as it is (eq 11), and
    beyond that what is full, by the same measure, once branches keep pace. ``saturated`` is lambda, in [0.85, 1].
    """
    stages = in_stages(layers)
    sums = [_lane_sums(layers, stage) for stage in stages]
    wholes = [whole for whole, _ in sums]
    began = min([1.0, *[present for _, present in sums]]) if sums else 0.0
    paced = min([1.0, *wholes])
    if paced >= ENOUGH:
        value, named = 1.0, list[int]()
    else:
        value, named = _saturated(OperatorNetwork(_inputs(layers, stages), wholes, began), wholes, ENOUGH * saturated)
    places = [(place, stage) for stage in named if value > 0 for place in _narrowest(layers, stages[stage])]
    bottlenecks = [Bottleneck(place, wholes[stage]) for place, stage in places]
    bottlenecks.sort(key=lambda bottleneck: bottleneck.whole)
    return Allocation(min(value, 1.0), paced, tuple(bottlenecks), layers, stages, began)


def _saturated(network: OperatorNetwork, wholes: Sequence[float], asked: float) -> tuple[float, list[int]]:
    """Return what flows of the need, and the stages at the cuts of which ``asked`` flows."""
    value, paced, named = network.augment(), min(wholes), list[int]()
    # A cut with more raised carries more: behind one that is not full none is.
    while (short := network.short()) and value >= asked * network.cut_capacity():
        named += short
        network.raise_to_the_need(short)
        network.augment()
    full = [stage for stage, whole in enumerate(wholes) if whole < ENOUGH and paced >= asked * whole]
    return value, [*named, *[stage for stage in full if stage not in named]]


def in_stages(layers: Sequence[Layer]) -> list[list[int]]:
    """Return the places of the layers stage by stage; layers that follow another lengthen its lanes."""
    stages: list[list[int]] = []
    stage_of: list[int] = []
    for place, layer in enumerate(layers):
        if layer.follows is None:
            stage_of.append(len(stages))
            stages.append([place])
        else:
            stage_of.append(stage_of[layer.follows])
            stages[stage_of[place]].append(place)
    return stages


def _inputs(layers: Sequence[Layer], stages: Sequence[Sequence[int]]) -> list[set[int]]:
    """Return the stages whose rows each stage takes: those of the layer at its head."""
    stage_of = {place: number for number, stage in enumerate(stages) for place in stage} | {LOG: LOG}
    return [{stage_of[place] for place in layers[stage[0]].after} for stage in stages]


def _lane_sums(layers: Sequence[Layer], stage: Sequence[int]) -> tuple[float, float]:
    """Return what the lanes of a stage carry together, and the flow that is there; what is not free is one lane."""
    first = layers[stage[0]]
    if not first.is_free:
        return min(first.whole, AMPLE), min(first.sums.flow, first.whole, AMPLE)
    if len(stage) == 1 and first.whole <= AMPLE:
        return first.whole, first.sums.present
    capacity = _lane_capacities(layers, stage)
    return float(capacity.sum()), float(np.minimum(first.flow, capacity).sum())


def _lane_capacities(layers: Sequence[Layer], stage: Sequence[int]) -> Floats:
    """Return what each lane of a stage whose head is free carries: as much as the narrowest instance in it."""
    if len(stage) == 1:
        return np.minimum(layers[stage[0]].capacity, AMPLE)
    narrowest: Floats = np.min([np.minimum(layers[place].capacity, AMPLE) for place in stage], axis=0)
    return narrowest


def _handed(layers: Sequence[Layer], stage: Sequence[int], began: float) -> tuple[Floats | None, float]:
    """Return the flow in each lane of a stage once all of it was raised to what it carries of the need, and that.

    It began in proportion to what was there; what came to it each lane took in proportion to its room. None: the stage
    is one lane.
    """
    whole, present = _lane_sums(layers, stage)
    carried = min(whole, 1.0)
    first = layers[stage[0]]
    if not first.is_free:
        return None, carried
    capacity = _lane_capacities(layers, stage)
    flow = np.minimum(first.flow, capacity)
    before = flow * (began / present) if present > 0 else np.zeros(len(flow))
    room = whole - began
    if room <= 0:
        return before, carried
    return before + (capacity - before) * min((carried - began) / room, 1.0), carried


def _narrowest(layers: Sequence[Layer], stage: Sequence[int]) -> list[int]:
    """Return the layers of a stage at which its lanes are narrowest, the first where several are."""
    if len(stage) == 1:
        return list(stage)
    at = np.argmin([layers[place].capacity for place in stage], axis=0)
    return [stage[number] for number in np.unique(at).tolist()]


def _by_instance(layer: Layer, lanes: Floats | None, carried: float) -> Floats:
    """Return each instance's part of what its stage carries; a layer that is not free keeps its shares."""
    if lanes is not None and layer.is_free:
        return lanes
    if layer.sums.flow > 0:
        return layer.flow * (carried / layer.sums.flow)
    return layer.capacity * (carried / max(layer.sums.balanced, 1e-300))
