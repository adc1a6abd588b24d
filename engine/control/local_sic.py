"""The shedder of the sources of one process by SIC, four times a second (`shedding.sic_shedding`).

The shell of an embedded job has one, and so has each task manager. It sees what waits in partitions and what their
instances did, and says which records are read next and which are dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.plan.query_routes import QueryRoutes
from penstock.model.columns import Bools, Floats
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import OperatorId
from penstock.model.sic import NO_CHECKS, Admission, SicGroup, SicTerms
from penstock.shedding.balance_sic import CoordinatorReport
from penstock.shedding.shedders import InputBuffer, Rows
from penstock.shedding.sic_admission import admissions
from penstock.shedding.sic_shedding import SHEDDERS, SicMemory, SicRule, SicView, checked

CHECK_NS = 250_000_000
"""delta, the shedding interval."""
PEEK_NS = 10_000_000
"""How often it is looked whether all that was admitted is read, which is reason for a check before its time."""


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """Counters of the instances here: SIC by source head, times by instance; and the SIC that waits, by group."""

    generated: Mapping[int, Floats]
    admitted: Mapping[int, Floats]
    busy_ns: Mapping[str, int]
    blocked_ns: Mapping[str, int]
    waiting: Floats


class LocalSic:
    """What is read next of the sources here."""

    def __init__(self, cpu_ns: Callable[[], int], seed: int = 0) -> None:
        """Begin without terms; ``cpu_ns`` is the CPU of the calling thread, ``seed`` breaks ties between queries."""
        self._cpu_ns = cpu_ns
        self._random = np.random.default_rng(seed)
        self._terms: SicTerms | None = None
        self._rows: list[tuple[int, ...]] = []
        self._memory = SicMemory.empty(0)
        self._rule = SicRule()
        self._reported: CoordinatorReport | None = None
        self._before: tuple[int, _Counts] | None = None
        # When it was decided last on what waits in a partition, by the head and the name.
        self._decided_ns: dict[tuple[int, str], int] = {}
        # Of a plan, by the head of each task: which groups stand behind it.
        self._behind: tuple[ExecutionGraph, Mapping[OperatorId, Bools]] | None = None
        self._sheds = False
        self._check_ns: int | None = None
        self._peek_ns = 0
        self.held_back = False
        """Whether minimums exceed what can be processed, so that sources are read less than they are offered."""
        self.checks = NO_CHECKS
        """How many checks there were, and their CPU."""

    @property
    def due_ns(self) -> int | None:
        """When `look` has something to do; None: no terms have come."""
        if self._check_ns is None or not self._sheds:
            return self._check_ns
        return min(self._check_ns, self._peek_ns)

    @property
    def terms(self) -> SicTerms | None:
        """The terms that hold."""
        return self._terms

    def hear(self, terms: SicTerms, builds: Sequence[Build]) -> None:
        """Take new terms, and let all sources here know them."""
        members = sorted({group.queries for group in terms.groups})
        if members != self._rows:
            self._rows, self._memory, self._before = members, SicMemory.empty(len(members)), None
            self._behind = None
        self._terms = terms
        self._check_ns = self._check_ns or 0
        if terms.sheds:
            self._rule = SicRule(SHEDDERS[terms.sheds])
        self._reported = self._report(terms) if terms.spread and terms.generated else None
        for build in builds:
            self.begin(build)

    def begin(self, build: Build) -> None:
        """Let the sources of what was built know the terms."""
        if self._terms is None:
            return
        if not self._terms.sheds:
            self._sheds = False
        build.set_sic(self._terms)
        for instance in build.instances:
            if instance.head is not None:
                instance.on_change()

    def look(self, builds: Sequence[Build], now_ns: int) -> None:
        """Check what waits if it is time."""
        if self._terms is None or self._check_ns is None:
            return
        if now_ns < self._check_ns:
            if not self._sheds or now_ns < self._peek_ns:
                return
            self._peek_ns = now_ns + PEEK_NS
            if any(head.unread() for build in builds for head in build.heads()):
                return
        self._check_ns = now_ns + CHECK_NS
        self._peek_ns = now_ns + PEEK_NS
        if not self._terms.sheds or not self._rows:
            return
        begun_ns = self._cpu_ns()
        self._check(builds, self._terms, now_ns)
        self.checks = self.checks.after(self._cpu_ns() - begun_ns)

    def _release(self, builds: Sequence[Build]) -> None:
        self._sheds, self._decided_ns = False, {}
        for build in builds:
            for instance in build.instances:
                if instance.head is not None:
                    instance.head.admit({})
                    instance.on_change()

    def _check(self, builds: Sequence[Build], terms: SicTerms, now_ns: int) -> None:
        heads = [head for build in builds for head in build.heads() if head.sic is not None]
        fed: dict[str, list[tuple[SicGroup, int, float]]] = {}
        for group in terms.groups:
            fed.setdefault(group.source, []).append((group, self._rows.index(group.queries), _mean_sic(terms, group)))
        batches: list[tuple[SourceHead, str, int, SicGroup]] = []
        places, worth, rows, waited_ms = list[int](), list[float](), list[int](), list[float]()
        decided_ns, self._decided_ns = self._decided_ns, {}
        for head in heads:
            groups, unread = fed.get(head.name, ()), head.unread()
            for name, records in sorted(head.waiting(old=terms.shed_backlog).items()):
                batches += [(head, name, records, group) for group, _, _ in groups]
                places += [place for _, place, _ in groups]
                worth += [sic * records for _, _, sic in groups]
                rows += [records] * len(groups)
                since_ns = self._decided_ns[id(head), name] = decided_ns.get((id(head), name), now_ns)
                # What feeds several groups is decided on for all of them; what loses nothing need not wait, and what
                # was admitted and not come to would wait again and again.
                may_wait = len(groups) == 1 and groups[0][0].minimum < 1.0 and not unread.get(name)
                waited_ms += [(now_ns - since_ns) / 1e6 if may_wait else np.inf] * len(groups)
        buffer = InputBuffer(np.array(places, np.int32), np.array(worth, np.float64), np.array(rows, np.int64))
        waiting = np.zeros(len(self._rows))
        np.add.at(waiting, buffer.query, buffer.sic)
        counts = _counts(builds, heads, waiting, now_ns)
        before, self._before = self._before, (now_ns, counts)
        if before is None or now_ns <= before[0]:
            return
        seen = buffer, np.array(waited_ms)
        view = self._view(builds, heads, terms, seen, (before[0], now_ns), before[1], counts)
        decision, self._memory = checked(self._rule, self._memory, view, self._random)
        self.held_back = decision.held_back
        if decision.rows_kept is None:
            self._release(builds)
            return
        self._sheds = True
        self._admit(builds, batches, decision.rows_kept, decision.later, now_ns)

    def _view(
        self,
        builds: Sequence[Build],
        heads: Sequence[SourceHead],
        terms: SicTerms,
        seen: tuple[InputBuffer, Floats],
        times: tuple[int, int],
        before: _Counts,
        after: _Counts,
    ) -> SicView:
        groups = len(self._rows)
        arrived, rows = after.waiting - before.waiting, np.zeros(groups)
        nothing = np.zeros(len(terms.queries))
        came, went = nothing.copy(), nothing.copy()
        firsts = [queries[0] for queries in self._rows]
        for head in heads:
            key, row_sic = id(head), np.array(terms.row_sic.get(head.name, nothing), np.float64)[firsts]
            own = after.admitted[key] - before.admitted.get(key, nothing)
            came += after.generated[key] - before.generated.get(key, nothing)
            went += own
            rows += np.divide(own[firsts], row_sic, out=np.zeros(groups), where=row_sic > 0.0)
        left, admitted = (np.array([sic[list(queries)].mean() for queries in self._rows]) for sic in (came, went))
        arrived += left
        busy = self._busy(builds, before, after, rows)
        elapsed_ns = times[1] - times[0]
        spent_ns = sum(after.busy_ns[name] - before.busy_ns.get(name, 0) for name in after.busy_ns)
        blocked_ns = max(
            (after.blocked_ns[name] - before.blocked_ns.get(name, 0) for name in after.blocked_ns), default=0
        )
        worked_ns = min(elapsed_ns, max(0, spent_ns) + max(0, blocked_ns))
        minimum = np.zeros(groups)
        for group in terms.groups:
            place = self._rows.index(group.queries)
            minimum[place] = max(minimum[place], group.minimum)
        return SicView(
            *seen,
            minimum,
            np.maximum(arrived, 0.0),
            np.maximum(admitted, 0.0),
            np.maximum(left - admitted, 0.0),
            np.rint(np.maximum(rows, 0.0)).astype(np.int32),
            busy,
            elapsed_ns / 1e6,
            worked_ns / 1e6,
            self._reported,
        )

    def _busy(self, builds: Sequence[Build], before: _Counts, after: _Counts, rows: Floats) -> Floats:
        """Return the busy time of each group, ms: of an instance for several in proportion to their rows."""
        busy = np.zeros(len(self._rows))
        for build in builds:
            if self._behind is None or self._behind[0] is not build.graph:
                self._behind = build.graph, _groups_behind(build.graph, self._rows)
            for task in build.graph.tasks:
                mine = self._behind[1][task.head] * rows
                if not mine.sum():
                    continue
                for instance in build.tasks.get(task.id, ()):
                    spent = after.busy_ns[instance.name] - before.busy_ns.get(instance.name, 0)
                    busy += mine / mine.sum() * max(0, spent) / 1e6
        return busy

    def _admit(
        self,
        builds: Sequence[Build],
        batches: Sequence[tuple[SourceHead, str, int, SicGroup]],
        rows_kept: Rows,
        later: Bools,
        now_ns: int,
    ) -> None:
        kept: dict[int, dict[str, list[tuple[SicGroup, int]]]] = {}
        waits: dict[tuple[int, str], int] = {}
        for (head, name, records, group), rows, is_later in zip(
            batches, rows_kept.tolist(), later.tolist(), strict=True
        ):
            groups = kept.setdefault(id(head), {}).setdefault(name, [])
            if not is_later:
                groups.append((group, rows))
                self._decided_ns[id(head), name] = now_ns
            waits[id(head), name] = 0 if is_later else records
        for build in builds:
            for instance in build.instances:
                if instance.head is None:
                    continue
                key = id(instance.head)
                plan: dict[str, Sequence[Admission]] = {
                    name: admissions(waits[key, name], groups) for name, groups in kept.get(key, {}).items()
                }
                instance.head.admit(plan)
                instance.on_change()

    def _report(self, terms: SicTerms) -> CoordinatorReport:
        """Return the report by group: one of several queries stands where the worst of them does."""
        delivered, generated = np.array(terms.delivered), np.array(terms.generated)
        norm = np.array([generated[list(queries)].mean() for queries in self._rows])
        share = np.divide(delivered, generated, out=np.ones(len(generated)), where=generated > 0)
        worst = np.array([share[list(queries)].min() for queries in self._rows])
        return CoordinatorReport(self._memory.number, 1, worst * norm, norm)


def _groups_behind(graph: ExecutionGraph, groups: Sequence[tuple[int, ...]]) -> Mapping[OperatorId, Bools]:
    routes = QueryRoutes(graph)
    behind = {task.head: routes.behind(task.head) for task in graph.tasks}
    return {head: np.array([of[list(queries)].any() for queries in groups]) for head, of in behind.items()}


def _mean_sic(terms: SicTerms, group: SicGroup) -> float:
    row = terms.row_sic.get(group.source)
    return 0.0 if row is None else sum(row[query] for query in group.queries) / len(group.queries)


def _counts(builds: Sequence[Build], heads: Sequence[SourceHead], waiting: Floats, now_ns: int) -> _Counts:
    busy: dict[str, int] = {}
    blocked: dict[str, int] = {}
    for build in builds:
        for instance in build.instances:
            spent = instance.accounting.spent(now_ns)
            busy[instance.name] = spent.busy_ns
            if instance.head is not None:
                blocked[instance.name] = spent.output_wait_ns + spent.remote_wait_ns
    counters = [(id(head), head.sic) for head in heads]
    return _Counts(
        {key: sic.generated.copy() for key, sic in counters if sic is not None},
        {key: sic.admitted.copy() for key, sic in counters if sic is not None},
        busy,
        blocked,
        waiting,
    )
