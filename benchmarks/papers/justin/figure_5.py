"""Rows of Justin's Figure 5, and of a query that is bound by its cache (Justin, section 5.1; papers.md 5.4 and 9)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.benchmarks.papers.evaluation import Progress, Row, Spread, share, spread
from penstock.benchmarks.papers.justin.outcome import Outcome, outcome
from penstock.benchmarks.papers.justin.queries import Query, parameters
from penstock.model.policy import Policy
from penstock.scheduler.justin import Justin, justins_ds2
from penstock.scheduler.memory_choice import MemoryChoice

DS2, TWO, THREE, OURS = "DS2", "Justin, 2 levels", "Justin, 3 levels", "ours"
CACHE_BOUND = Query("read", is_flink=False, until_s=1800.0)
FLINKS_READ = Query("read", until_s=1800.0)
SMALL = Query("q5")
ONLY_WRITES = Query("write")
Q1, Q3, Q11, Q8 = Query("q1"), Query("q3"), Query("q11", until_s=2400.0), Query("q8", until_s=2400.0)
FIGURE = (Q1, Q3, SMALL, Q11, Q8)
ONE = Spread(1.0, 1.0, 1.0)
SAME = 0.05
"""Gains up to this part are none."""


def contenders() -> dict[str, Policy[Any]]:
    """Return the policies by name, each with the figures that it has by itself: none is told of the store."""
    return {DS2: justins_ds2(), TWO: Justin(max_level=2), THREE: Justin(max_level=3), OURS: MemoryChoice()}


@dataclass(frozen=True, slots=True)
class Goal:
    """What of DS2's figure there may be at most, not rounded; ``sizes``: what the paper's configurations come to."""

    paper: str
    text: str
    value: float
    sizes: str = ""


Q11_MEMORY = Goal("0.72", "0.72", 0.72, "3107 of 4303 MB, 0.7221")
Q8_MEMORY = Goal("0.73", "0.73", 0.73, "6041 of 8275 MB, 0.73003")


@dataclass(frozen=True)
class Results:
    """Outcomes by query and policy, draw by draw; some were run for the first draws only."""

    outcomes: Mapping[tuple[Query, str], Sequence[Outcome]]

    def of(self, query: Query, policy: str, figure: str) -> Spread:
        """Return how a figure spreads."""
        return spread([float(getattr(each, figure)) for each in self.outcomes[query, policy]])

    def over(self, query: Query, policy: str, figure: str) -> Spread:
        """Return how a policy's figure over DS2's in the same draw spreads."""
        own, base = self.outcomes[query, policy], self.outcomes[query, DS2]
        pairs = zip(own, base, strict=False)
        return spread([_ratio(a, b, figure) for a, b in pairs])

    def won(self, query: Query, figure: str, goal: float) -> float:
        """Return the part of the draws in which Justin with two levels has at most ``goal`` of DS2's figure."""
        pairs = zip(self.outcomes[query, TWO], self.outcomes[query, DS2], strict=True)
        return share([_ratio(own, base, figure) <= goal for own, base in pairs]).median

    def share(self, query: Query, policy: str, holds: Callable[[Outcome], bool]) -> Spread:
        """Return the part of the draws in which something holds."""
        return share([holds(each) for each in self.outcomes[query, policy]])


def _ratio(own: Outcome, base: Outcome, figure: str) -> float:
    return float(getattr(own, figure)) / float(getattr(base, figure))


def results(seeds: Sequence[int], told: Progress) -> Results:
    """Run what headline rows compare for all seeds, and the rest and the controls for a sixth of them."""
    few = seeds[: max(1, len(seeds) // 6)]
    whole = [(query, name) for query in (Q11, Q8) for name in (DS2, TWO)]
    whole += [(CACHE_BOUND, name) for name in (DS2, OURS)]
    part = [(query, name) for query in (Q11, Q8) for name in (THREE, OURS)]
    part += [(CACHE_BOUND, name) for name in (TWO, THREE)]
    part += [(FLINKS_READ, name) for name in (DS2, TWO, OURS)]
    part += [(query, name) for query in (Q1, Q3, SMALL, ONLY_WRITES) for name in (DS2, TWO, OURS)]
    found: dict[tuple[Query, str], list[Outcome]] = {(query, name): [] for query, name in (*whole, *part)}
    for done, draw in enumerate(seeds):
        told("Justin's queries", done, len(seeds))
        given, policies = parameters(draw), contenders()
        for query, name in (*whole, *(part if done < len(few) else ())):
            found[query, name].append(outcome(given, query, policies[name], draw))
    told("Justin's queries", len(seeds), len(seeds))
    return Results(found)


def rows(seed: int, found: Results) -> list[Row]:
    """Return the rows."""
    return [
        *_query_rows(seed, found, Q11, Goal("0.54 (7 of 13)", "7/13", 7 / 13), Q11_MEMORY, "3 = 3"),
        _path_row(seed, found),
        *_query_rows(seed, found, Q8, Goal("0.52 (13 of 25)", "13/25", 13 / 25), Q8_MEMORY, "4 and 5"),
        *_stateless_rows(seed, found),
        *_unharmed_rows(seed, found),
        *_cache_rows(seed, found),
    ]


def _query_rows(seed: int, found: Results, query: Query, cores: Goal, memory: Goal, steps: str) -> list[Row]:
    """Justin with the artifact's two levels against the paper's figures, and the others beside it."""
    name = query.name
    rate, base = found.of(query, TWO, "carried"), found.of(query, DS2, "carried")
    own_steps, ds2_steps = found.of(query, TWO, "steps"), found.of(query, DS2, "steps")
    result = [
        _ratio_row(seed, found, query, "cores", cores, "instances"),
        _ratio_row(seed, found, query, "memory_mib", memory, "main_mib"),
        Row(
            seed, f"{name}: rate over the target, {TWO}", "equal", ">= 0.99 and DS2's", rate, base,
            met=rate.median >= max(0.99, 0.99 * base.median), unit="x",
        ),
        Row(
            seed, f"{name}: steps, {TWO}", steps, "<= DS2's", own_steps, ds2_steps,
            met=own_steps.median <= ds2_steps.median,
            note="nobody is told the rate that generators hold back, so that a step about doubles what there is",
        ),
    ]  # fmt: skip
    for other in (THREE, OURS):
        for figure, label in (("cores", "cores"), ("memory_mib", "memory")):
            own = found.over(query, other, figure)
            result.append(Row(seed, f"{name}: {label}, {other}", "-", "-", own, ONE, unit="x"))
        rate = found.of(query, other, "carried")
        result.append(Row(seed, f"{name}: rate over the target, {other}", "-", "-", rate, base, unit="x"))
    own = found.over(query, TWO, "machine_cores")
    result.append(Row(seed, f"{name}: cores of whole task managers, {TWO}", "-", "-", own, ONE, unit="x"))
    return result


def _ratio_row(seed: int, found: Results, query: Query, figure: str, goal: Goal, control: str) -> Row:
    own, small = found.over(query, TWO, figure), found.over(SMALL, TWO, control)
    label = "cores" if figure == "cores" else "memory"
    met = own.median <= goal.value and abs(small.median - 1) <= SAME
    note = (
        f"reached in {found.won(query, figure, goal.value):.0%} of the draws; control: the main operator of q5, whose "
        "state is small. The seed does not tell how large the state is: assumed"
    )
    if goal.sizes:
        note += f". The paper's own configurations come to {goal.sizes}, a little above its figure, and miss it too"
    return Row(
        seed, f"{query.name}: {label}, {TWO}", goal.paper, f"<= {goal.text} x", own, ONE, small, met, "x", note
    )  # fmt: skip


def _path_row(seed: int, found: Results) -> Row:
    """Up, then only out: so the paper goes, and its own listing cannot with three levels."""
    two, three = (found.share(Q11, name, lambda each: each.is_up_then_out) for name in (TWO, THREE))
    ends = found.share(Q11, TWO, lambda each: str(each.path[-1]) == "(6;316)").median
    return Row(
        seed, "q11: draws that go up, out, ... out", "up, out, out: (6;316)", "most; none with 3 levels", two, three,
        met=two.median > 0.5 and three.median == 0,
        note=f"baseline: 3 levels; {ends:.0%} of the draws end at (6;316) itself",
    )  # fmt: skip


def _stateless_rows(seed: int, found: Results) -> list[Row]:
    """Memory of what has no state; that of q5's main operator, which has and stays at its level, must not change."""
    note = "control: managed memory of the main operator of q5, which has state"
    result, kept = [], found.over(SMALL, TWO, "main_mib")
    for query, figure, paper, goal, label in (
        (Q1, "memory_mib", "0.60", 0.6, "q1: memory"),
        (Q3, "bare_mib", "-", 0.6, "q3: memory of filters and sink"),
        (Q3, "memory_mib", "0.90", 1 - SAME, "q3: memory"),
    ):
        own, same = found.over(query, TWO, figure), found.over(query, TWO, "cores")
        met = own.median <= goal and abs(same.median - 1) <= SAME and abs(kept.median - 1) <= SAME
        goals = f"<= {goal:g} x, same cores"
        result.append(Row(seed, f"{label}, {TWO}", paper, goals, own, ONE, kept, met, "x", note))
    for query, paper in ((Q1, "2 = 2"), (Q3, "3 = 3"), (SMALL, "same")):
        steps, base = found.of(query, TWO, "steps"), found.of(query, DS2, "steps")
        met = steps.median <= base.median
        result.append(Row(seed, f"{query.name}: steps, {TWO}", paper, "<= DS2's", steps, base, met=met))
    return result


def _unharmed_rows(seed: int, found: Results) -> list[Row]:
    """Where memory cannot help: the same instances, and no memory of the main operator above DS2's."""
    larger = "more where it makes the memtable larger, so that writes wait less for flushes"
    result = []
    for query, label, paper in ((SMALL, "q5, small state", "1"), (ONLY_WRITES, "only writes", "-")):
        for name in (TWO, OURS):
            own, memory = found.over(query, name, "instances"), found.over(query, name, "main_mib")
            result += [
                Row(
                    seed, f"{label}: instances, {name}", paper, "1 x", own, ONE,
                    met=abs(own.median - 1) <= SAME, unit="x",
                ),
                Row(
                    seed, f"{label}: managed memory, {name}", paper, "<= 1 x", memory, ONE,
                    met=memory.median <= 1 + 1e-9, unit="x", note=larger if name == OURS else "",
                ),
            ]  # fmt: skip
    return result


def _cache_rows(seed: int, found: Results) -> list[Row]:
    """Figure 4's Read, which its cache binds, on Penstock's terms; all it needs is calibrated there."""
    query = CACHE_BOUND
    result = []
    for figure, label, goal in (("cores", "cores", 0.55), ("memory_mib", "memory", 0.75)):
        own, small = found.over(query, OURS, figure), found.over(SMALL, OURS, "instances")
        met = own.median <= goal and abs(small.median - 1) <= SAME
        note = "control: instances of q5, whose state is small"
        result.append(Row(seed, f"cache-bound: {label}, ours", "-", f"<= {goal:g} x", own, ONE, small, met, "x", note))
        for other in (TWO, THREE):
            beside = found.over(query, other, figure)
            result.append(Row(seed, f"cache-bound: {label}, {other}", "-", "-", beside, ONE, unit="x"))
        for name in (TWO, OURS):
            beside = found.over(FLINKS_READ, name, figure)
            result.append(Row(seed, f"the same on Justin's testbed: {label}, {name}", "-", "-", beside, ONE, unit="x"))
    base, own = found.of(query, DS2, "steps"), found.of(query, OURS, "steps")
    result.append(Row(seed, "cache-bound: steps, ours", "-", "<= DS2's", own, base, met=own.median <= base.median))
    for other in (TWO, THREE):
        beside = found.of(query, other, "steps")
        result.append(Row(seed, f"cache-bound: steps, {other}", "-", "-", beside, base))
    rate, base = found.of(query, OURS, "carried"), found.of(query, DS2, "carried")
    result.append(
        Row(
            seed, "cache-bound: rate over the target, ours", "-", ">= 0.99 and DS2's", rate, base,
            met=rate.median >= max(0.99, 0.99 * base.median), unit="x",
        )
    )  # fmt: skip
    return result
