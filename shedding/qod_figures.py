"""Figures of the quality-of-data controller from a snapshot: accuracy and CPU by instance, free CPU by machine.

Stream-Economics, sections 3 and 6; `qod` calls it once a cycle.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.plan import NoChange, not_measured
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.task_levels import Indexes
from penstock.shedding import accuracy
from penstock.shedding.group_sums import least, total, total_with_means
from penstock.shedding.instance_identity import InstanceNames, names_of
from penstock.shedding.qod_sources import LagMaxima, SourceRates, offered_to_sources
from penstock.shedding.task_graph import TaskGraph, task_graph

UNMEASURED_CPU = 100.0
"""CPU of a task that was never measured, percent: one core (Stream-Economics, section 4)."""


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """Options for deriving figures.

    `sources`: the measure of a source's input. `drain_s`: the time in which a backlog is to be drained, None: it is
    ignored. `by_instance`: each instance is measured against its own input and CPU, where the paper takes the slowest
    for all and an even share for each, so that skew looks like loss. `by_mix`: a task with several producers has the
    accuracy of their mix, where the paper takes the minimum and falls to 0 in a loop.
    """

    sources: SourceRates = "end offsets"
    drain_s: float | None = None
    by_instance: bool = False
    by_mix: bool = False

    def __post_init__(self) -> None:
        if self.drain_s is not None and not self.drain_s > 0:
            raise ValueError(f"a backlog is worked off in more than 0 s, not {self.drain_s}")


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """By running instance, whose `row` is that of the snapshot; `minimum` and `priority` by query, `a_cpu` by machine.

    `p`, `min_ac`, `min_req_cpu`: p(t(i)), minAc(t(i)), minReqCpu(t(i)); `cpu` and `c_ac` are the values that the
    equations use for it. `takes`: it took rows in. `cpu_metric`: its own CPU, NaN if not measured. A task without any
    figure counts `UNMEASURED_CPU` and has full accuracy; there are `unmeasured_tasks` of them. `a_cpu`:
    100 * nCores - cpu(tm) + tCpu(tm), before minimums.
    """

    graph: TaskGraph
    minimum: Floats
    priority: Floats
    row: Indexes
    who: InstanceNames
    task: Indexes
    machine: Indexes
    p: Floats
    min_ac: Floats
    cpu: Floats
    c_ac: Floats
    min_req_cpu: Floats
    cpu_metric: Floats
    takes: Bools
    age_s: Floats
    a_cpu: Floats
    unmeasured_tasks: int


def read_figures(snapshot: ClusterSnapshot, reading: FigureOptions, before: LagMaxima) -> Figures | NoChange:
    """Return the figures of a snapshot, or `NoChange` naming the missing ones."""
    instances, machines, queries = snapshot.instances, snapshot.machines, snapshot.queries
    cpu_ns, records_in, age_s = instances.cpu_ns, instances.records_in, instances.age_s
    records_out, cpu_percent = snapshot.outputs.records_out, machines.cpu_percent
    if cpu_ns is None or records_in is None or age_s is None:
        return not_measured("instances.cpu_ns, instances.records_in, instances.age_s")
    if cpu_percent is None or (records_out is None and len(snapshot.edges)):
        return not_measured("machines.cpu_percent, outputs.records_out")
    row = np.flatnonzero(instances.is_running)
    task, machine = instances.task[row].astype(np.intp), instances.machine[row].astype(np.intp)
    if np.isnan(age_s[row]).any():
        return not_measured("instances.age_s of an instance that runs")
    if np.isnan(cpu_percent[machine]).any():
        return not_measured("machines.cpu_percent of a machine with instances")
    graph = task_graph(len(snapshot.tasks), snapshot.edges.producer, snapshot.edges.consumer, queries.task)
    sources = offered_to_sources(snapshot, graph.level == 0, reading.sources, reading.drain_s, before)
    if isinstance(sources, NoChange):
        return sources

    out_rate = np.zeros(len(snapshot.edges))
    if records_out is not None:
        rows_out = total_with_means(records_out, snapshot.outputs.edge.astype(np.intp), len(snapshot.edges))
        out_rate = rows_out / snapshot.window_s
    offered = total(out_rate, graph.consumer.astype(np.intp), graph.tasks)
    offered[graph.level == 0] = sources.task[graph.level == 0]
    in_rate, cpu_metric = records_in[row] / snapshot.window_s, cpu_ns[row] / snapshot.window_s / 1e7
    measures = _Measures(graph, task, in_rate, cpu_metric, offered, np.nan_to_num(out_rate), reading.by_mix)
    if not reading.by_instance:
        cpu, c_ac, unmeasured = _by_slowest(measures)
    else:
        if snapshot.inputs.offered is None:
            return not_measured("inputs.offered")
        cpu, c_ac, unmeasured = _by_instance(measures, _own_offer(snapshot, sources.instance)[row])

    undeclared = len(graph.query_task) - graph.declared
    minimum = np.concatenate([queries.minimum_accuracy, np.ones(undeclared)])
    priority = np.concatenate([queries.priority, np.full(undeclared, -np.inf)])
    min_ac = accuracy.min_ac(minimum, graph)[task]
    all_cores = 100.0 * machines.cores
    t_cpu = total(np.nan_to_num(measures.cpu_metric), machine, len(machines))
    return Figures(
        graph=graph,
        minimum=minimum,
        priority=priority,
        row=row,
        who=names_of(snapshot, row),
        task=task,
        machine=machine,
        p=accuracy.p(priority, graph)[task],
        min_ac=min_ac,
        cpu=cpu,
        c_ac=c_ac,
        min_req_cpu=accuracy.min_req_cpu(min_ac, cpu, c_ac),
        cpu_metric=measures.cpu_metric,
        takes=~(records_in[row] == 0),
        age_s=age_s[row],
        # What is not measured has no instance, and no room for one.
        a_cpu=np.nan_to_num(np.clip(all_cores - cpu_percent + t_cpu, 0.0, all_cores)),
        unmeasured_tasks=unmeasured,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Measures:
    """By running instance rows/s taken and percent of a core, by task rows/s offered, by edge rows/s sent.

    NaN: not measured.
    """

    graph: TaskGraph
    task: Indexes
    in_rate: Floats
    cpu_metric: Floats
    offered: Floats
    out_rate: Floats
    by_mix: bool

    def above(self, local: Floats) -> Floats:
        """Return the accuracy of the input of every task, from the local accuracies."""
        if self.by_mix:
            return accuracy.mixed_above(local, self.out_rate, self.graph)
        return accuracy.least_above(local, self.graph)


def _by_slowest(measures: _Measures) -> tuple[Floats, Floats, int]:
    """Return cpu and cAc by instance as in the paper, equations 3, 4 and 6, and the number of tasks without figures."""
    task, tasks = measures.task, measures.graph.tasks
    is_measured = ~np.isnan(measures.in_rate) & ~np.isnan(measures.cpu_metric)
    in_rate, cpu_metric, running = (
        measures.in_rate[is_measured],
        measures.cpu_metric[is_measured],
        np.bincount(task, minlength=tasks),
    )
    local = accuracy.l_ac(in_rate, task[is_measured], measures.offered, running)
    load = accuracy.cpu(cpu_metric, in_rate, task[is_measured], tasks)
    unmeasured = np.isnan(load)
    load[unmeasured], local[np.isnan(local)] = UNMEASURED_CPU, 1.0
    c_ac = local * measures.above(local)
    return load[task], c_ac[task], int((unmeasured & (running > 0)).sum())


def _by_instance(measures: _Measures, own_offer: Floats) -> tuple[Floats, Floats, int]:
    """Return the same from each instance's own input and CPU; those without figures count as in the paper."""
    cpu, c_ac, unmeasured = _by_slowest(measures)
    is_measured = ~np.isnan(measures.in_rate) & ~np.isnan(measures.cpu_metric) & ~np.isnan(own_offer)
    measured_rows = np.flatnonzero(is_measured)
    task, ones = measures.task[measured_rows], np.ones(len(measured_rows), np.intp)
    share = accuracy.l_ac(
        measures.in_rate[measured_rows], np.arange(len(measured_rows)), own_offer[measured_rows], ones
    )
    local = np.minimum(1.0, least(share, task, measures.graph.tasks))
    c_ac[measured_rows] = share * measures.above(local)[task]
    cpu[measured_rows] = measures.cpu_metric[measured_rows]
    return cpu, c_ac, unmeasured


def _own_offer(snapshot: ClusterSnapshot, from_logs: Floats) -> Floats:
    """Return rows/s offered to each instance of the snapshot, by its channels or its log; NaN if not measured."""
    inputs = snapshot.inputs
    assert inputs.offered is not None
    channel = inputs.instance.astype(np.intp)
    rate = total(inputs.offered, channel, len(from_logs)) / snapshot.window_s
    has_channels = np.bincount(channel, minlength=len(from_logs)) > 0
    return np.where(has_channels, rate, from_logs)
