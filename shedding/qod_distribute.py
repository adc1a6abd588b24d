"""Even sharing of the CPU above the minimums, instance by instance: Algorithm 3 of Stream-Economics, section 5.2.

The `paper` way of `qod`; the `penstock` way is `progressive_filling`. Each step depends on the CPU left by the one
before, so it walks over plain lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from penstock.model.columns import Floats
from penstock.model.task_levels import Indexes
from penstock.shedding import accuracy
from penstock.shedding.qod_figures import Figures

_DIFF_REQ = itemgetter(0)
_ROUNDING = 1e-9


def distribute(figures: Figures, a_cpu: Floats, desired: Floats, taking: Indexes) -> tuple[Floats, Floats]:
    """Return desired(q) by query, and the CPU granted to each instance above its minimum, percent of a core.

    a_cpu: aCpu(tm), percent, left after reserving the minimums; desired: initial value of each query; taking: the
    instances that are served. Priorities come in descending order, and in each the machines by `slack`.
    """
    walk = _Walk.of(figures, taking, desired)
    spare = a_cpu.tolist()
    p = figures.p[taking]
    for level in np.unique(p)[::-1]:
        of_level = np.flatnonzero(p == level)
        machine = figures.machine[taking[of_level]]
        # Rounded: machines that lack the same must not change places with the last digit, or accuracy would swing.
        starving = np.round(_slack(figures, np.array(walk.desired), a_cpu=np.array(spare), rows=taking[of_level]), 6)
        ends = np.cumsum(np.bincount(machine, minlength=len(spare))).tolist()
        by_machine = of_level[np.argsort(machine, kind="stable")].tolist()
        hosts = np.unique(machine)
        for tm in hosts[np.argsort(-starving[hosts], kind="stable")].tolist():
            group = by_machine[ends[tm - 1] if tm else 0 : ends[tm]]
            spare[tm] = walk.distribute_evenly(group, spare[tm])
    granted = np.zeros(len(figures.task))
    granted[taking] = walk.granted
    return np.array(walk.desired), granted


def _slack(figures: Figures, desired: Floats, a_cpu: Floats, rows: Indexes) -> Floats:
    """Return slack(tm, p) by machine, for the instances of one priority."""
    cpu, c_ac, machine = figures.cpu[rows], figures.c_ac[rows], figures.machine[rows]
    max_ac = accuracy.max_ac(desired, figures.graph)[figures.task[rows]]
    diff_req = accuracy.diff_req(accuracy.max_req_cpu(max_ac, cpu, c_ac), figures.min_req_cpu[rows])
    hosted = np.bincount(machine, minlength=len(a_cpu)).astype(np.float64)
    return accuracy.slack(diff_req, accuracy.m_obt_cpu(a_cpu[machine], hosted[machine]), machine, len(a_cpu))


@dataclass(slots=True)
class _Walk:
    """The instances that are served, as lists, and the CPU granted so far."""

    queries: list[list[int]]
    min_ac: list[float]
    min_req_cpu: list[float]
    cpu: list[float]
    c_ac: list[float]
    desired: list[float]
    granted: list[float]

    @classmethod
    def of(cls, figures: Figures, taking: Indexes, desired: Floats) -> "_Walk":
        graph = figures.graph
        ends = [*graph.starts.tolist()[1:], len(graph.pair_query)]
        task_queries, queries, first = graph.pair_query.tolist(), [], 0
        for end in ends:
            queries.append(task_queries[first:end])
            first = end
        return cls(
            [queries[t] for t in figures.task[taking].tolist()],
            figures.min_ac[taking].tolist(),
            figures.min_req_cpu[taking].tolist(),
            figures.cpu[taking].tolist(),
            figures.c_ac[taking].tolist(),
            desired.tolist(),
            [0.0] * len(taking),
        )

    def distribute_evenly(self, group: Sequence[int], a_cpu: float) -> float:
        """Serve a group, all of one machine and one priority, from `a_cpu`; return the rest of it."""
        desired = self.desired
        needs = [(*self._need(i), i) for i in group]
        needs.sort(key=_DIFF_REQ)
        waiting, is_lowered = len(group), False
        for need, max_ac, is_capped, i in needs:
            if is_lowered:
                need, max_ac, is_capped = self._need(i)
            share = a_cpu / waiting
            granted = need if need <= share else share
            # To reckon the accuracy anew where nothing was refused would freeze a task whose CPU rounds to 0.
            if granted < need or is_capped:
                ac = min(1.0, self.min_ac[i] + self._obt_ac(i, granted))
                if ac < max_ac:
                    is_lowered = True
                    for q in self.queries[i]:
                        if desired[q] > ac:
                            desired[q] = ac
            self.granted[i] = granted
            a_cpu = a_cpu - granted if a_cpu - granted > _ROUNDING else 0.0
            waiting -= 1
        return a_cpu

    def _need(self, i: int) -> tuple[float, float, bool]:
        """Return diffReq, maxAc, and whether the cap of a thread binds: equations 12, 5 and 8 for one instance."""
        desired, queries = self.desired, self.queries[i]
        max_ac = desired[queries[0]] if len(queries) == 1 else max([desired[q] for q in queries])
        c_ac = self.c_ac[i]
        if c_ac > 0:
            required = max_ac * self.cpu[i] / c_ac
            if required > 100.0:
                return 100.0 - self.min_req_cpu[i], max_ac, True
        else:
            required = 100.0 if max_ac > 0 else 0.0
        return max(0.0, required - self.min_req_cpu[i]), max_ac, False

    def _obt_ac(self, i: int, c: float) -> float:
        """Return obtAc(i, c), equation 11 for one instance."""
        c_ac, cpu = self.c_ac[i], self.cpu[i]
        if c_ac > 0:
            if cpu > 0:
                return min(c_ac * c / cpu, 1.0)
            return 1.0 if c > 0 else c_ac
        return 1.0 if c > 0 else 0.0
