"""What a flow network is made of: needs of tasks, lags of sources, and layers (Flink-ER, 2.2). Called by `flink_er`."""

from collections.abc import Sequence

import numpy as np

from penstock.model.columns import Floats, Ints
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.task_levels import task_levels
from penstock.scheduler.flow_network import Layer, sums_of
from penstock.scheduler.operator_network import LOG
from penstock.scheduler.propagation import propagate
from penstock.scheduler.row_groups import RowGroups
from penstock.scheduler.shed_rows import shed_below
from penstock.scheduler.true_rates import or_nan, output_ratios, source_targets, sum_by, task_rates

SHEDS_S = 30.0
"""Shedding counts as the lag that so long of it would make, or a longer window: it lasts until somebody acts."""


def needs(snapshot: ClusterSnapshot, drain_s: float, action_s: float) -> tuple[Floats, Floats, str]:
    """Return the rate (rows/s) that must enter every task, what of it arrives, and the name of a missing figure.

    Of a source: the offered rate, plus the backlog and the input during an action, spread over ``drain_s``; the offered
    rate is what arrives.
    """
    arriving = source_targets(snapshot)
    ratios = output_ratios(snapshot, task_rates(snapshot).rate_in)
    backlog, targets = _backlog(snapshot), arriving
    if backlog is not None:
        reader = snapshot.instances.task[snapshot.partitions.instance]
        targets = arriving * (1 + action_s / drain_s) + sum_by(reader, backlog, len(arriving)) / drain_s
    producer, consumer = snapshot.edges.producer, snapshot.edges.consumer
    by_level = task_levels(len(arriving), producer, consumer)[1]
    found, steady = (propagate(rates, ratios, producer, consumer, by_level) for rates in (targets, arriving))
    unknown = np.flatnonzero(np.isnan(found))
    if not len(unknown):
        return found, steady, ""
    task = int(unknown[0])
    owner = snapshot.applications.name[snapshot.tasks.application[task]]
    return found, steady, f"what must enter task {snapshot.tasks.name[task]!r} of {owner!r}"


def _backlog(snapshot: ClusterSnapshot) -> Floats | None:
    ends, positions = snapshot.partitions.end_offset, snapshot.partitions.position
    return None if ends is None or positions is None else np.maximum(ends - positions, 0.0)


def source_lags(snapshot: ClusterSnapshot) -> Floats | None:
    """Return each source's lag in seconds of its input: that of its most lagging partition (eq 1's source).

    What is shed, at the source or below it, would wait if nothing were shed, and counts as lag; it is no part of the
    need. 0 of other tasks; None: partitions were not measured.
    """
    backlog, appended = _backlog(snapshot), snapshot.partitions.appended
    if backlog is None or appended is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = np.where(backlog > 0, backlog / (appended / snapshot.window_s), 0.0)
        lags = np.zeros(len(snapshot.tasks))
        # One that is not known makes its source's unknown.
        np.maximum.at(lags, snapshot.instances.task[snapshot.partitions.instance], seconds)
    lags_shed = shed_below(snapshot) * max(snapshot.window_s, SHEDS_S)
    return np.where(snapshot.tasks.is_source, lags + lags_shed, lags)


def slow_tasks(snapshot: ClusterSnapshot, latency_ms: float) -> tuple[Ints, Ints]:
    """Return the tasks whose mean latency (eq 12) is above the constraint, and those that took rows of unknown latency.

    An infinite constraint needs no figures.
    """
    instances, tasks = snapshot.instances, len(snapshot.tasks)
    none = np.zeros(0, np.int32)
    if np.isinf(latency_ms):
        return none, none
    each = or_nan(instances.latency_ms, len(instances))
    known = ~np.isnan(each)
    count = np.bincount(instances.task, known, tasks)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sum_by(instances.task, np.where(known, each, 0.0), tasks) / count
    taken = np.bincount(instances.task, np.nan_to_num(or_nan(instances.records_in, len(instances))), tasks)
    unknown = np.flatnonzero((taken > 0) & (count == 0))
    return np.flatnonzero(np.nan_to_num(mean) > latency_ms).astype(np.int32), unknown.astype(np.int32)


class Network:
    """Splits a snapshot into layers; sorted and added up once, as there may be thousands of applications."""

    def __init__(self, snapshot: ClusterSnapshot, limits: Floats, needs: Floats) -> None:
        """``limits``: rows/s that an instance can take; ``needs``: rows/s that must enter a task.

        An instance without figures takes the mean of the others.
        """
        instances, edges, tasks = snapshot.instances, snapshot.edges, len(snapshot.tasks)
        self._number = instances.number
        self._instances = RowGroups(instances.task, tasks)
        self._below = RowGroups(edges.producer, tasks).lists(edges.consumer)
        self._above = RowGroups(edges.consumer, tasks).lists(edges.producer)
        self._producer, self._consumer = edges.producer, edges.consumer
        level, self._by_level = task_levels(tasks, edges.producer, edges.consumer)
        self._level: list[int] = level.tolist()
        has_input = np.bincount(edges.consumer, minlength=tasks) > 0
        is_free = (np.bincount(edges.consumer, ~edges.is_free, tasks) == 0) & has_input
        forward = np.zeros(len(edges), np.bool_) if edges.is_forward is None else edges.is_forward
        follows = (np.bincount(edges.consumer, ~forward, tasks) == 0) & has_input
        self._is_free: list[bool] = is_free.tolist()
        self._follows: list[bool] = follows.tolist()
        self._reached: dict[int, Ints] = {}
        # In shares of need, in the order of tasks: a layer is a slice of it.
        order = self._instances.order
        task, limits = instances.task[order], limits[order]
        known = ~np.isnan(limits)
        count = np.bincount(task, known, tasks)
        self._is_layer: list[bool] = ((needs > 0) & (count > 0)).tolist()
        flow = np.nan_to_num(or_nan(instances.records_in, len(limits)))[order] / snapshot.window_s
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.bincount(task, np.where(known, limits, 0.0), tasks) / count
            self._capacity = np.where(known, limits, mean[task]) / needs[task]
            self._flow = flow / needs[task]
            self._sums = sums_of(task, self._capacity, self._flow, is_free)

    def reached(self, source: int) -> Ints:
        """Return the tasks that a source's rows come to, itself the first, in the order of the data."""
        if source not in self._reached:
            found, ahead = {source}, [source]
            while ahead:
                below = self._below[ahead.pop()]
                ahead += [task for task in below if task not in found]
                found.update(below)
            self._reached[source] = np.array(sorted(found, key=lambda task: (self._level[task], task)), np.int32)
        return self._reached[source]

    def most_lagged(self, lags: Floats) -> Ints:
        """Return for each task the source above it that lags most; a source is its own."""
        worst, origin = lags.copy(), np.arange(len(lags), dtype=np.int32)
        for edges in self._by_level:
            ordered = edges[np.argsort(worst[self._producer[edges]], kind="stable")]
            above, below = self._producer[ordered], self._consumer[ordered]
            # Of several edges into a task the last, from the most lagged, is what stays.
            worst[below], origin[below] = worst[above], origin[above]
        return origin

    def layers(self, tasks: Sequence[int], headroom: float = 1.0) -> list[Layer]:
        """Return tasks as layers, of which ``headroom`` needs are asked; they stand in the order of the data.

        A task without need, or figures, is left out; what it takes goes on to the tasks below it. Rows of other tasks
        than these come in the same proportion, so they are no other way from the log.
        """
        layers: list[Layer] = []
        # By task: the places of the layers whose rows those are that come from it.
        givers: dict[int, tuple[int, ...]] = {}
        for task in tasks:
            above = self._above[task]
            after = _together([givers[producer] for producer in above if producer in givers])
            if not self._is_layer[task]:
                givers[task] = after
                continue
            own, sums = self._instances.within(task), self._sums[task]
            capacity, flow = self._capacity[own], self._flow[own]
            follows = self._followed(task, above, layers, givers) if self._follows[task] else None
            if follows is not None:
                sums = sums._replace(whole=sums.balanced)
            is_free = follows is not None or self._is_free[task]
            givers[task] = (len(layers),)
            layer = Layer(task, self._instances.order[own], capacity, flow, is_free, after, follows, sums)
            layers.append(layer if headroom == 1.0 else layer.asked(headroom))
        return layers

    def _followed(
        self, task: int, above: Sequence[int], layers: Sequence[Layer], givers: dict[int, tuple[int, ...]]
    ) -> int | None:
        """Return the free layer whose lanes a task goes on with, instance by instance."""
        heads = set()
        for producer in above:
            if producer not in givers or not self._is_layer[producer]:
                return None
            (place,) = givers[producer]
            head = layers[place].follows
            heads.add(place if head is None else head)
        head = heads.pop()
        mine, its = self._number[self._instances.rows(task)], self._number[layers[head].instances]
        return head if not heads and layers[head].is_free and np.array_equal(mine, its) else None


def _together(givers: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the layers that rows come from, each once; without any they come from the log."""
    if len(givers) == 1:
        return givers[0]
    return tuple(dict.fromkeys(place for places in givers for place in places)) or (LOG,)
