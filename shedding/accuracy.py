"""Equations 1 to 15 of Stream-Economics, one function each, on arrays over tasks, instances, edges or machines.

Accuracies are in [0, 1] and CPU in percent of a core. `qod_figures` and the two ways to share out CPU call them.
"""

import numpy as np

from penstock.model.columns import Floats
from penstock.model.task_levels import Indexes
from penstock.shedding.group_sums import least, most, total
from penstock.shedding.task_graph import TaskGraph


def p(priority: Floats, graph: TaskGraph) -> Floats:
    """Return the priority of every task; equation 1.

    p(t) = max over q in Q(t) of p(q)

    p(q): priority of query q, larger is more important.
    """
    return graph.over_queries(priority)


def min_ac(minimum: Floats, graph: TaskGraph) -> Floats:
    """Return the least accuracy of every task, in [0, 1]; equation 2.

    minAc(t) = max over q in Q(t) of minAc(q)

    minAc(q): the least accuracy at which the answers of query q are of use.
    """
    return graph.over_queries(minimum)


def c_ac(l_ac: Floats, graph: TaskGraph) -> Floats:
    """Return the current accuracy of every task, in [0, 1]; equation 3.

    cAc(t) = lAc(t) * min over t' in up(t) of cAc(t'), or lAc(t) where there is no task above

    lAc(t): local accuracy, equation 4; up(t): the producers of the edges into t.
    """
    return l_ac * least_above(l_ac, graph)


def least_above(l_ac: Floats, graph: TaskGraph) -> Floats:
    """Return min over t' in up(t) of cAc(t'), in [0, 1], 1 where there is no task above; from equation 3."""
    accuracy, above = l_ac.copy(), np.ones(graph.tasks)
    for edges in graph.edges_by_level:
        tasks = graph.consumer[edges]
        np.minimum.at(above, tasks, accuracy[graph.producer[edges]])
        accuracy[tasks] = l_ac[tasks] * above[tasks]
    return above


def mixed_above(l_ac: Floats, out_rate: Floats, graph: TaskGraph) -> Floats:
    """Return the accuracy of the mixed input of a task, in [0, 1], 1 where there is no task above.

    above(t) = sum of out(e) / sum of out(e) / cAc(producer of e), over the edges e into t; cAc(t) = lAc(t) * above(t)

    out(e): rows/s before the shedder of edge e. It replaces the minimum of equation 3, which counts twice what a
    shedder drops from a producer of higher accuracy than its neighbour; both agree if all producers are equally
    accurate.
    """
    accuracy, above = l_ac.copy(), least_above(l_ac, graph)
    for edges in graph.edges_by_level:
        tasks, from_above = graph.consumer[edges].astype(np.intp), accuracy[graph.producer[edges]]
        is_counted = (from_above > 0) & (out_rate[edges] > 0)
        offered = total(out_rate[edges[is_counted]], tasks[is_counted], graph.tasks)
        unshed = total(out_rate[edges[is_counted]] / from_above[is_counted], tasks[is_counted], graph.tasks)
        has_input = unshed > 0
        above[has_input] = offered[has_input] / unshed[has_input]
        accuracy[tasks] = l_ac[tasks] * above[tasks]
    return above


def l_ac(in_rate: Floats, task: Indexes, offered: Floats, instances: Indexes) -> Floats:
    """Return the local accuracy of every task, in [0, 1]; equation 4.

    lAc(t) = min over i of inRate(i) / (offered(t) / n_inst(t))

    inRate(i): rows/s that instance i took, after shedders; task: t(i); offered(t): the sum of outRate(t', t) over
    up(t), or the input of a source's log, rows/s before shedders; n_inst(t): the number of instances of t. 1 where
    nothing is offered. A task without an instance here has NaN.
    """
    slowest = least(in_rate, task, len(offered))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = slowest * instances / offered
    accuracy = np.where(offered > 0, np.clip(share, 0.0, 1.0), 1.0)
    return np.where(np.isinf(slowest), np.nan, accuracy)


def max_ac(desired: Floats, graph: TaskGraph) -> Floats:
    """Return the greatest accuracy required of every task, in [0, 1]; equation 5.

    maxAc(t) = max over q in Q(t) of desired(q)

    desired(q): the target accuracy of query q.
    """
    return graph.over_queries(desired)


def cpu(cpu_metric: Floats, in_rate: Floats, task: Indexes, tasks: int) -> Floats:
    """Return the CPU of every task, percent of a core; equation 6.

    cpu(t) = cpuMetric of the instance with the smallest inRate, the highest if there are several

    cpuMetric(i): CPU that instance i used, percent of a core; inRate(i): rows/s, after shedders; task: t(i). A task
    without an instance here has NaN.
    """
    slowest = in_rate == least(in_rate, task, tasks)[task]
    load = most(cpu_metric[slowest], task[slowest], tasks)
    return np.where(np.isinf(load), np.nan, load)


def m_obt_cpu(a_cpu: Floats, instances: Floats) -> Floats:
    """Return the CPU that every instance gets at least, percent of a core; equation 7.

    mObtCpu(i) = aCpu(tm(i)) / |ti(tm(i), p(t(i)))|

    aCpu(tm): CPU that machine tm has left; ti(tm, p): the instances on it of priority p.
    """
    return a_cpu / instances


def r_cpu(ac: Floats, cpu: Floats, c_ac: Floats) -> Floats:
    """Return the CPU that an instance needs for accuracy ac, percent of a core; equation 8.

    rCpu(t, ac) = min(ac * cpu(t) / cAc(t), 100); where cAc(t) = 0: 0 if ac = 0, else 100

    An instance is one thread, so it never uses more than one core.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        linear = np.minimum(ac * cpu / c_ac, 100.0)
    return np.where(c_ac > 0, linear, np.where(ac > 0, 100.0, 0.0))


def min_req_cpu(min_ac: Floats, cpu: Floats, c_ac: Floats) -> Floats:
    """Return the CPU for the least accuracy, percent of a core: minReqCpu(t) = rCpu(t, minAc(t)); equation 9."""
    return r_cpu(min_ac, cpu, c_ac)


def max_req_cpu(max_ac: Floats, cpu: Floats, c_ac: Floats) -> Floats:
    """Return the CPU for the most accuracy, percent of a core: maxReqCpu(t) = rCpu(t, maxAc(t)); equation 10."""
    return r_cpu(max_ac, cpu, c_ac)


def obt_ac(c: Floats, cpu: Floats, c_ac: Floats) -> Floats:
    """Return the accuracy that CPU c gives, in [0, 1]; equation 11.

    obtAc(t, c) = min(cAc(t) * c / cpu(t), 1); where cAc(t) = 0: 0 if c = 0, else 1; else where cpu(t) = 0: cAc(t)
    if c = 0, else 1

    c: percent of a core.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        linear = np.minimum(c_ac * c / cpu, 1.0)
    idle = np.where(c > 0, 1.0, c_ac)
    unseen = np.where(c > 0, 1.0, 0.0)
    return np.where(c_ac > 0, np.where(cpu > 0, linear, idle), unseen)


def diff_req(max_req_cpu: Floats, min_req_cpu: Floats) -> Floats:
    """Return the CPU above the minimum, percent of a core: diffReq(t) = maxReqCpu(t) - minReqCpu(t); equation 12."""
    return max_req_cpu - min_req_cpu


def slack(diff_req: Floats, m_obt_cpu: Floats, group: Indexes, groups: int) -> Floats:
    """Return the shortage of CPU by machine and priority, percent of a core; equation 13.

    slack(tm, p) = sum over i in ti(tm, p) of (diffReq(t(i)) - mObtCpu(i))

    diffReq(t(i)) and mObtCpu(i) are by instance, and `group` is the row of its (tm, p). Despite the name, the
    machine with the greatest shortage has the largest value.
    """
    return total(diff_req - m_obt_cpu, group, groups)


def desired(desired: Floats, graph: TaskGraph) -> Floats:
    """Return the target accuracy of every task, in [0, 1]; equation 14.

    desired(t) = max over t' in down(t) of desired(t')

    down(t): the consumers of the edges out of t; a query's own desired accuracy is that of its sink's task.
    """
    of_task = np.zeros(graph.tasks)
    np.maximum.at(of_task, graph.query_task, desired)
    for edges in reversed(graph.edges_by_level):
        np.maximum.at(of_task, graph.producer[edges], of_task[graph.consumer[edges]])
    return of_task


def d(desired_below: Floats, desired_above: Floats) -> Floats:
    """Return the probability in [0, 1] that a row is kept; equation 15.

    d(t, t') = desired(t') / desired(t)

    desired_below: desired(t'); desired_above: desired(t), which is 1 for the log that a source reads. 0 / 0 is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = desired_below / desired_above
    return np.where(desired_above > 0, np.minimum(share, 1.0), 0.0)
