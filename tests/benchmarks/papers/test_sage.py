"""The Sage evaluation: brute force against the whole simulation, its verdicts, and logs that give the sizes again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.loop import EVALUATED, Run
from penstock.benchmarks.papers.cluster_model.parameters import evaluation_parameters
from penstock.benchmarks.papers.sage import at_once_rows
from penstock.benchmarks.papers.sage.applications import PACKAGE, Averaged, Trace, archetype, latency_bound_s
from penstock.benchmarks.papers.sage.cases import Drawn, drawn_applications, ours, starved, steady
from penstock.benchmarks.papers.sage.fleet import Member, fleet, ran
from penstock.benchmarks.papers.sage.optimum import Optimum, holds, living, optimum
from penstock.benchmarks.papers.sage.outcomes import Action, Outcome, outcomes, resources_of
from penstock.benchmarks.papers.sage.remote import Case, grown, noise_blocked
from penstock.benchmarks.papers.sage.rivals import Independent, ParallelismFirst, bounds_of
from penstock.benchmarks.papers.sage.sizing_rows import rows, starved_rows
from penstock.engine.control.policies import make_policy, parameters_of
from penstock.model.plan import ApplicationSize, Decision, NoChange, RescalePlan, as_dict
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_log import ActionLog, EntryKind, read_log, snapshot_of
from penstock.scheduler.guarded import guarded
from penstock.scheduler.resizer import Allocation
from penstock.scheduler.sage import Sage
from tests.long_cases import but_for
from tests.scheduler.sage_applications import GB, actions, simulate

MINUTE = 60.0


def nothing_told(what: str, done: int, whole: int) -> None:
    """Nobody looks on."""


@pytest.mark.long("brute force over a simulation; test_a_seed_gives_the_same_again runs it")
def test_brute_force_agrees_with_the_whole_simulation() -> None:
    """At the optimum rows wait as long as they may; with less of a resource they wait longer, or a kill comes."""
    found = [archetype(evaluation_parameters(PACKAGE, None), number, f"a{number}") for number in (0, 7, 14, 20)]
    best = [optimum(own) for own in found]

    def tried(cores: float, memory: float) -> tuple[np.ndarray, float]:
        given = [
            replace(item.given, cores=cores * item.given.cores, memory_bytes=memory * item.given.memory_bytes)
            for item in best
        ]
        _, done = ran([Member(own, size) for own, size in zip(found, given, strict=True)], None, 1, 4000.0, 2.5)
        late = done.series.table("lag")[-240:].max(axis=0)
        bound = np.array([latency_bound_s() * own.mean_rate for own in found])
        return late / bound, float(done.series.table("kills").sum())

    late, kills = tried(1.0, 1.01)
    assert late.max() <= 1.15 and np.median(late) > 0.7 and kills == 0
    late, kills = tried(0.85, 1.01)
    assert (late > 1.15).sum() >= 3 and kills == 0
    _, kills = tried(1.0, 0.9)
    assert kills > 0


def test_no_cheaper_size_on_a_grid_holds_the_bounds() -> None:
    own = archetype(evaluation_parameters(PACKAGE, None), 7, "a")
    best, live = optimum(own), living(own)
    ratios = np.repeat(np.linspace(1.05, 3.0, 5), 40)
    cores = np.tile(np.linspace(0.3, 1.0, 40) * best.given.cores, 5)
    for threads in range(1, best.given.threads + 4):
        fits = holds(own, live, ratios * live.max(), threads, cores)
        cheaper = cores + ratios * live.max() / 4e9 < 0.98 * best.price
        assert not (fits & cheaper).any()


@pytest.mark.parametrize(
    ("seed", "number"),
    but_for(
        [(110, 10), (1334076657, 12), (1671048924, 10), (78452958, 6)],
        [(110, 10), (1334076657, 12)],
        "large applications; two smaller ones stay",
    ),
)
def test_a_service_and_partitions_fit_their_application(seed: int, number: int) -> None:
    """These applications call often, or a slow service meets their peak; a size holds the bounds all the same."""
    own = archetype(evaluation_parameters(PACKAGE, seed), number, "a")
    peak = max(own.rate.values)
    assert own.wait is not None
    best = optimum(own)
    assert 0 < best.price < 100
    cluster = fleet([Member(own, best.given)])
    [service], [source] = cluster.services, cluster.sources
    assert len(source.partition_shares) == own.partitions >= best.given.threads
    assert service.most_calls_per_s == own.most_calls_per_s >= 2 * peak


@pytest.fixture(scope="module")
def starving() -> tuple[list[Drawn], list[Member], Cluster, Run]:
    drawn = [steady(item) for item in drawn_applications([11, 12, 13], nothing_told)]
    members = [starved(item) for item in drawn]
    return drawn, members, *ran(members, ours(), 5, 6000.0)


def judged(starving: tuple[list[Drawn], list[Member], Cluster, Run]) -> list[Outcome]:
    drawn, members, cluster, done = starving
    return outcomes(members, [item.optimum for item in drawn], cluster, done, 1200.0)


@pytest.mark.long("hours of a fleet; tests/scheduler/test_sage gives what lacks everything in order")
def test_what_lacks_everything_gets_it_in_order(starving: tuple[list[Drawn], list[Member], Cluster, Run]) -> None:
    found = judged(starving)
    assert np.median([item.undone() for item in found]) == 0
    for item in found:
        assert item.in_order() and item.downs() <= 1
        grew = {action.resource for action in item.actions if action.is_up}
        assert grew & {"heap", "memory"} and "cores" in grew
        assert item.final.cores > item.optimum.given.cores


@pytest.mark.long("hours of a fleet; test_simulated_logs decides again from half an hour")
def test_a_log_gives_the_same_decisions_and_sizes_again(
    starving: tuple[list[Drawn], list[Member], Cluster, Run], tmp_path: Path
) -> None:
    _, members, cluster, done = starving
    path = tmp_path / "actions.jsonl"
    with ActionLog(path) as log:
        log.policy("sage", parameters_of(guarded(ours(), EVALUATED)))
        for record in done.records:
            log.snapshot(record.snapshot)
            log.decision(record.snapshot, "sage", record.decision)
            log.result(record.snapshot, "sage", record.outcome.result, {"why": record.outcome.why})

    sizes = [
        {
            "heap": each.given.heap_bytes,
            "memory": each.given.memory_bytes,
            "cores": each.given.cores,
            "threads": float(each.given.threads),
        }
        for each in members
    ]
    policy = make_policy("sage", {})
    memory, seen, waiting = policy.start(), None, []
    for entry in read_log(path):
        if entry.kind is EntryKind.POLICY:
            policy = make_policy(entry.content["policy"], entry.content["parameters"])
            memory = policy.start()
        elif entry.kind is EntryKind.SNAPSHOT:
            seen = snapshot_of(path, entry)
        elif entry.kind is EntryKind.DECISION:
            assert seen is not None
            decision, memory = policy.decide(seen, memory)
            assert as_dict(decision) == {**as_dict(decision), **_tuples(entry.content["decision"])}
            waiting = list(decision.applications) if isinstance(decision, RescalePlan) else []
        elif entry.kind is EntryKind.RESULT and entry.content["outcome"] != "refused":
            for size in waiting:
                sizes[size.application].update(resources_of(size))
    assert any(isinstance(record.decision, RescalePlan) for record in done.records)
    assert [size["cores"] for size in sizes] == cluster.cores.tolist()
    assert [size["memory"] for size in sizes] == cluster.memory.tolist()
    assert [size["heap"] for size in sizes] == cluster.heap.tolist()
    assert [size["threads"] for size in sizes] == cluster.parallelism.tolist()


def _tuples(value: object) -> object:
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    return {key: _tuples(item) for key, item in value.items()} if isinstance(value, dict) else value


@dataclass(frozen=True)
class Swings:
    """Takes half of the cores away and gives them back, for ever."""

    def start(self) -> int:
        return 0

    def decide(self, snapshot: ClusterSnapshot, memory: int) -> tuple[Decision, int]:
        if memory % 10:
            return NoChange("waits"), memory + 1
        assert snapshot.applications.cores is not None
        factor = 0.5 if memory % 20 else 2.0
        size = ApplicationSize(0, cores=float(snapshot.applications.cores[0] * factor))
        return RescalePlan("swings", applications=(size,)), memory + 1


def test_a_policy_that_swings_is_shown_up() -> None:
    drawn = [steady(item) for item in drawn_applications([3], nothing_told)]
    members = [Member(drawn[0].application, drawn[0].optimum.given)]
    cluster, done = ran(members, Swings(), 1, 60 * MINUTE)
    bad = outcomes(members, [drawn[0].optimum], cluster, done, 1200.0)
    assert bad[0].undone() >= 2 and bad[0].swings(1800.0) >= 2
    by_name = {row.row: row for row in rows(0, bad, bad, bad, members)}
    assert by_name["undo actions and swings"].met is False
    assert {row.met for row in starved_rows(0, bad, bad, bad, bad) if row.row == "starved: undo actions"} == {False}


def test_verdicts() -> None:
    best = Optimum(Allocation(1.0, 4e9, 2e9, 2), 2.0)

    def sized(*actions: Action) -> Outcome:
        return Outcome(actions, best.given, best, 0.1, 0.1, 0.1, 0.5, 0.0)

    def up(minute: float, resource: str) -> Action:
        return Action(minute * MINUTE, resource, 1.0, 1.5)

    def down(minute: float, resource: str) -> Action:
        return Action(minute * MINUTE, resource, 1.5, 1.0)

    ordered = sized(up(5, "memory"), up(10, "cores"), up(20, "threads"), down(60, "cores"))
    assert ordered.in_order() and ordered.undone() == 0 and ordered.swings(1800.0) == 0 and ordered.downs() == 0
    assert ordered.sizing_s == 60 * MINUTE and ordered.holds and not replace(ordered, late=1.1).holds
    assert not sized(up(5, "threads"), up(10, "heap")).in_order()
    assert sized(down(5, "cores"), up(10, "heap")).undone() == 0
    assert sized(down(5, "cores"), up(10, "cores")).undone() == 1
    assert sized(up(5, "cores"), down(10, "cores")).swings(1800.0) == 1
    assert sized(down(5, "heap"), down(40, "heap"), down(41, "cores")).downs() == 2


def test_a_headline_row_is_not_met_where_sage_acts_at_the_optimum() -> None:
    size = Optimum(Allocation(1.0, 4e9, 2e9, 2), 2.0)
    still = Outcome((), size.given, size, 0.1, 0.1, 0.1, 0.5, 0.0)
    acts = replace(still, actions=(Action(5 * MINUTE, "cores", 1.0, 1.5),))
    members = [Member(archetype(evaluation_parameters(PACKAGE, None), 0, "a"), size.given)]

    def met(best: Outcome, rested: Outcome) -> dict[str, bool | None]:
        found = [*rows(0, [still], [best], [rested], members), *starved_rows(0, [still], [still], [still], [best])]
        assert all(row.control.median == len(best.actions) for row in found if row.control is not None)
        return {row.row: row.met for row in found if row.control is not None}

    assert met(still, acts)["oversize"] and met(still, acts)["undo actions and swings"]
    assert len(met(acts, still)) == 9 and not any(met(acts, still).values())


def test_at_once_has_to_be_twice_as_fast_no_larger_and_without_a_way_back() -> None:
    size = Optimum(Allocation(1.0, 4e9, 2e9, 2), 2.0)

    def sized(minutes: Sequence[float], over: float, late: float = 0.5) -> Outcome:
        acts = tuple(Action(minute * MINUTE, "cores", 1.5, 1.0) for minute in minutes)
        return Outcome(acts, size.given, size, over, over, over, late, 0.0)

    def met(own: Outcome, best: Outcome) -> list[bool | None]:
        return [row.met for row in at_once_rows.rows(0, [own], [sized([40.0], 0.1)], [best])]

    still = sized([], 0.1)
    assert met(sized([20.0], 0.11), still) == [True, True, True, True]
    assert met(sized([21.0], 0.13, late=1.1), still)[:3] == [False, False, False]
    assert met(sized([20.0], 0.11), sized([5.0], 0.1)) == [False, False, True, False]
    back = replace(still, actions=(Action(60.0, "cores", 1.5, 1.0), Action(600.0, "cores", 1.0, 1.5)))
    assert met(back, still)[3] is False


def test_a_step_sees_the_mean_of_the_trace_over_it() -> None:
    """So that no value lasts longer than it does, and none is left out."""
    trace = Trace((1.0, 5.0, 2.0), 7.0)
    seen = [Averaged(trace, 10.0)(10.0 * step) for step in range(21)]
    assert np.mean(seen) == pytest.approx(8 / 3) and seen[:2] == [pytest.approx(2.2), pytest.approx(3.2)]


def test_rivals_know_no_order() -> None:
    def starving(number: int, has: Mapping[str, float]) -> Mapping[str, float]:
        """Lacks heap and cores, and its backlog rises; all that it needs in the end is heap."""
        return {"heap_used": has["heap"] if has["heap"] < 5 * GB else 4.5 * GB, "backlog": 1e5 * number, "cpu": 3.9}

    assert actions(simulate(ours(), 6, {"a": starving})) == [(4, "heap up")]
    assert actions(simulate(ParallelismFirst(), 6, {"a": starving})) == [(4, "parallelism up")]
    windows = [rule.window_s for rule in ParallelismFirst().rules()]
    assert windows == sorted(windows)
    at_once = actions(simulate(Independent.like(ours()), 6, {"a": starving}))
    assert at_once == [(4, "heap up"), (4, "CPU up")]


def test_rivals_have_the_bounds_of_sage() -> None:
    policy = Sage(growth=2.0, margin=0.2, up=0.95, down=0.7, stabilisation_s=120.0, guard="none", idle_backlog_s=3.0)
    for rival in (ParallelismFirst(**bounds_of(policy)), *Independent.like(policy).each):
        assert bounds_of(rival) == bounds_of(policy) and rival.limits() == policy.limits()


def acted(seeds: Sequence[int], case: Case, guard: str) -> float:
    return float(np.mean(np.isfinite(grown(seeds, case, guard, nothing_told, ""))))


@pytest.mark.long("many draws; tests/scheduler/test_sage_services has single ones")
def test_a_service_that_falters_gets_no_threads_and_load_does() -> None:
    seeds = list(range(12))
    assert acted(seeds, Case(slow=True), "none") >= 0.6
    assert acted(seeds, Case(slow=True), "growth") <= 0.1
    assert acted(seeds, Case(fails=True), "growth") <= 0.1
    assert acted(seeds, Case(loaded=True), "growth") >= 0.6
    own, literal = noise_blocked(seeds)
    assert np.median(own) <= 0.05 < np.median(literal)


def test_a_seed_gives_the_same_again() -> None:
    drawn = drawn_applications([7, 8], nothing_told)
    assert [item.optimum for item in drawn] == [item.optimum for item in drawn_applications([7, 8], nothing_told)]
    runs = [ran([starved(item) for item in drawn], ours(), 2, 30 * MINUTE)[1] for _ in range(2)]
    first, again = ([record.decision for record in done.records] for done in runs)
    assert first == again
