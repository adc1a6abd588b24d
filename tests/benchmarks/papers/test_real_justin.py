"""Justin on real parts: shapes of rates by memory that are known, sizes that are, and small runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.benchmarks.papers.justin.real_cases import (
    DS2,
    HALF,
    HALF_POLICIES,
    HELD,
    HELD_LEAST,
    HELD_MB,
    LITERAL,
    OURS,
    POLICIES,
    cases,
    halved,
)
from penstock.benchmarks.papers.justin.real_figures import behind_s, carried, ended, freed_s, lag_s, lost, window_s
from penstock.benchmarks.papers.justin.real_queries import OPENED, OUT, SESSIONS
from penstock.benchmarks.papers.justin.real_rows import charts, rows
from penstock.benchmarks.papers.justin.real_state import MEMORY_MB, StateCase, StateRun, state_cases, state_run
from penstock.benchmarks.papers.justin.real_state_rows import state_chart, state_rows
from penstock.benchmarks.papers.real.application import Application, Setting, attribute
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.schedule import Phase, rows_due
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.benchmarks.papers.real.wanted import Wanted
from penstock.engine.control.steering import scaler
from penstock.model.control import Control
from penstock.model.memory_levels import BASE_BYTES, MIB
from penstock.model.plan import RescalePlan
from penstock.scheduler.action_log import ActionLog
from tests.scheduler.scaling_jobs import Job, Task, measured

READ, WRITE, UPDATE = (100.0, 150.0, 200.0, 220.0), (100.0, 101.0, 99.0, 102.0), (50.0, 80.0, 100.0, 102.0)
KEPT = {"read": READ, "write": WRITE, "update": UPDATE}


def state(rates: Mapping[str, Sequence[float]], memory_mb: Sequence[int] = MEMORY_MB) -> list[StateRun]:
    direct = [
        StateRun(StateCase(kind, memory, 10, 10), rate)
        for kind, own in rates.items()
        for memory, rate in zip(memory_mb, own, strict=True)
    ]
    return [*direct, *(StateRun(StateCase("read", memory_mb[end], 10, 10, direct=False), 100.0) for end in (0, -1))]


def verdicts(rates: Mapping[str, Sequence[float]]) -> list[bool | None]:
    made = [*state_rows(state(rates))]
    assert all(row.real for row in made)
    return [row.met for row in made]


def test_shapes_are_told_from_others() -> None:
    assert verdicts(KEPT) == [True, True, True]
    assert verdicts({**KEPT, "read": WRITE, "write": READ, "update": (50.0, 60.0, 80.0, 120.0)}) == [False] * 3
    # One that rises in the end, and falls in between, does not rise.
    assert verdicts({**KEPT, "read": (100.0, 80.0, 150.0, 200.0)})[0] is False
    (read, *_) = state_rows(state(KEPT))
    assert read.ours.median == pytest.approx(2.2) and read.control is not None and read.control.median == 1.0
    assert [line.y[0] for line in state_chart(state(KEPT)).lines] == [100.0, 100.0, 50.0]


def test_two_sizes_of_memory_make_one_step_which_cannot_level_off() -> None:
    memory = sorted({case.memory_mb for case in state_cases(Scale.SMOKE)})
    ends = {kind: (own[0], own[-1]) for kind, own in KEPT.items()}
    *others, update = state_rows(state(ends, memory))
    assert [row.met for row in others] == [True, True]
    assert update.met is None and "not judged" in update.note


def test_every_kind_is_measured_with_every_memory_and_once_more_through_the_page_cache() -> None:
    wanted = state_cases(Scale.SHORT)
    assert len({case.name for case in wanted}) == len(wanted) == 3 * len(MEMORY_MB) + 2
    assert {case.memory_mb for case in wanted if not case.direct} == {MEMORY_MB[0], MEMORY_MB[-1]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["read", "update"])
def test_state_larger_than_its_memory_is_reached_past_the_page_cache(tmp_path: Path, kind: str) -> None:
    case = StateCase(kind, 8, 30_000, 30_000)
    run = state_run(case, tmp_path / "one")
    assert run.case == case and run.per_s > 0.0
    assert state_run(case, tmp_path / "one") == run


def test_every_query_keeps_its_state_where_its_rows_wait_and_every_policy_can_be_had() -> None:
    for made, _ in cases(Scale.SHORT, 1):
        setting = Setting("127.0.0.1:1", tuple(made.topics), Path("unused"), None, made.options)
        application: Application = attribute(made.application)(setting)
        plan = application.job.plan(made.start["parallelism"], apart=True)
        tasks = {plan.name(task).split(" -> ")[0]: task.parallelism for task in plan.tasks}
        begins_with = 2 if HALF in made.name or made.name == HELD_LEAST else 1
        assert tasks[SESSIONS if made.name.startswith("q11") else OPENED] == begins_with == made.task_managers
        assert made.start["state_bytes"] == (HELD_MB[0] * MIB if made.name == HELD_LEAST else BASE_BYTES)
        if made.name != HELD_LEAST:
            item = scaler(Control(**made.control))
            assert item.name == made.control["scale"] and item.every_s <= 20.0
    sizing = {made.control.get("scale") for made, _ in cases(Scale.SHORT, 1)}
    assert sizing == {None, *HALF_POLICIES} > {*POLICIES}


def kept_query(folder: Path, memory_mb: float, instances: int, waiting: float = 0.0) -> SeenRun:
    """Write a run that ends with so many instances with state, of so much memory each, and leaves rows unread."""
    phases = (Phase(100.0, 60.0),)
    (folder / "job").mkdir(parents=True)
    tasks = [Task("bids", None), Task("sessions -> out", 100.0, instances, is_stateful=True, managed=memory_mb * MIB)]
    snapshot = measured(Job(tasks, [(0, 1, 1.0)], 50.0))
    with ActionLog(folder / "job" / "actions.jsonl") as log:
        log.snapshot(snapshot)
        log.result(snapshot, "policy", "applied", {})
        log.result(snapshot, "policy", "recommended", {})
    at_s = [0.0, 20.0, 40.0, 59.0, 60.0]
    sample = {"cpu_s": 0.0, "read": {"bids": 1}, "taken": {SESSIONS: 1}, "shed": 0}
    run = {
        "case": {"topics": ["bids"]},
        "capacity": 100.0,
        "capacity_after": 100.0,
        "phases": [asdict(phase) for phase in phases],
        "begin_ns": 0,
        "job_begun_ns": -1,
        "queries": {},
        "broker_cpu_s": 3.0,
        "exact": None,
        "injected": [
            {"at_ns": int(at * 1e9), "cpu_s": 0.0, "delivered": {"bids": [rows_due(phases, at)]}} for at in at_s
        ],
        "samples": [{**sample, "at_ns": int(at * 1e9), "waiting": {"bids": waiting * at}} for at in at_s],
    }
    (folder / "run.json").write_text(json.dumps(run))
    return SeenRun(folder)


def test_sizes_and_rates_are_those_of_the_end(tmp_path: Path) -> None:
    run = kept_query(tmp_path / "q11-ds2-1", 158.0, 2)
    assert ended(run).memory_bytes == pytest.approx(2 * 158 * MIB)
    assert (ended(run).stateful, ended(run).instances, ended(run).actions) == (2, 3, 1)
    assert carried(run) == 1.0 and lag_s(run) == 0.0
    behind = kept_query(tmp_path / "behind", 158.0, 2, waiting=30.0)
    assert carried(behind) == pytest.approx(0.7) and lag_s(behind) == pytest.approx(18.0, rel=0.02)


def test_memory_is_held_against_that_of_ds2(tmp_path: Path) -> None:
    def runs(ours_mb: float, waiting: float = 0.0) -> dict[str, list[SeenRun]]:
        folder = tmp_path / f"{ours_mb}-{waiting}"
        return {
            f"q11-{DS2}": [kept_query(folder / "ds2", 158.0, 2)],
            f"q11-{LITERAL}": [kept_query(folder / "justin", 316.0, 1)],
            f"q11-{OURS}": [kept_query(folder / "ours", ours_mb, 2, waiting)],
        }

    def met(ours_mb: float, waiting: float = 0.0) -> list[bool | None]:
        told = rows(state(KEPT), runs(ours_mb, waiting))
        assert all(row.real for row in told)
        made = {row.row: row.met for row in told}
        return [made[f"q11 by {OURS}: memory"], made[f"q11 by {OURS}: carried at 1.3 of one instance"]]

    assert met(112.0) == [True, True] and met(120.0) == [False, True] and met(112.0, 30.0) == [True, False]
    literal = {row.row: row for row in rows(state(KEPT), runs(111.0))}[f"q11 by {LITERAL}: memory"]
    assert literal.met is None and literal.baseline is not None and literal.ours.median == literal.baseline.median
    drawn = {chart.name for chart in charts(state(KEPT), runs(110.0))}
    assert drawn == {"real_state", "real_waiting"}


def test_large_state_is_held_against_ds2_and_its_control_is_to_fall_behind(tmp_path: Path) -> None:
    def met(ours_mb: float, least_waiting: float) -> list[bool | None]:
        folder = tmp_path / f"{ours_mb}-{least_waiting}"
        runs = {
            f"{HELD}-{DS2}": [kept_query(folder / "ds2", 158.0, 2)],
            f"{HELD}-{OURS}": [kept_query(folder / "ours", ours_mb, 2)],
            HELD_LEAST: [kept_query(folder / "least", float(HELD_MB[0]), 2, least_waiting)],
        }
        made = {row.row: row.met for row in rows([], runs)}
        control = f"{HELD} with 2 instances of {HELD_MB[0]} MB (control): carried"
        return [made[f"{HELD} by {OURS}: memory"], made[control]]

    assert met(80.0, 30.0) == [True, True] and met(140.0, 0.0) == [False, False]


def test_a_step_wants_two_instances_in_few_actions_and_no_lag(tmp_path: Path) -> None:
    def met(name: str, instances: int, waiting: float = 0.0) -> bool | None:
        run = kept_query(tmp_path / name, 158.0, instances, waiting)
        made = {row.row: row.met for row in rows(state(KEPT), {f"q11-{DS2}-step": [run]})}
        return made[f"q11 by {DS2}: the load doubles"]

    assert met("right", 2) and met("wide", 3) is False and met("late", 2, waiting=30.0) is False
    assert behind_s(kept_query(tmp_path / "quiet", 158.0, 2)) == 0.0
    assert behind_s(kept_query(tmp_path / "behind", 158.0, 2, waiting=30.0)) is None


def kept_half(
    folder: Path, freed_at_s: float, until_s: float = 1e9, *, policy: str = DS2, waiting: float = 0.0, missing: int = 0
) -> SeenRun:
    """Write a run whose load halves at 45 s, with two instances up to a time, and none again from another on."""
    case = halved(Scale.SHORT, policy)
    phases = tuple(Phase(100 * load, seconds) for load, seconds in case.loads)
    end_s = int(sum(phase.seconds for phase in phases))
    (folder / "job" / OUT).mkdir(parents=True)
    for part, bids in enumerate((700, 300 - missing)):
        pq.write_table(pa.table({"bids": [bids - 1, 1]}), folder / "job" / OUT / f"{part}.parquet")
    at_s = [float(second) for second in range(end_s + 2)]
    sample = {"cpu_s": 0.0, "read": {"bids": 1}, "taken": {SESSIONS: 1}, "shed": 0, "waiting": {"bids": waiting}}
    run = {
        "case": asdict(case), "capacity": 100.0, "capacity_after": 100.0,
        "phases": [asdict(phase) for phase in phases], "begin_ns": 0, "job_begun_ns": -1, "queries": {},
        "broker_cpu_s": 3.0, "exact": 1_000,
        "injected": [
            {"at_ns": int(at * 1e9), "cpu_s": 0.0, "delivered": {"bids": [rows_due(phases, at)]}} for at in at_s
        ],
        "samples": [
            {
                **sample, "at_ns": int(at * 1e9),
                "instances": {"bids": 1, f"{SESSIONS} -> {OUT}": 1 if freed_at_s <= at < until_s else 2},
            }
            for at in at_s
        ],
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    return SeenRun(folder)


def test_an_instance_is_free_once_one_is_left_to_the_end(tmp_path: Path) -> None:
    assert freed_s(kept_half(tmp_path / "soon", 62.0)) == 17.0
    assert freed_s(kept_half(tmp_path / "early", 30.0)) == -15.0
    assert freed_s(kept_half(tmp_path / "never", 1e9)) is None
    assert freed_s(kept_half(tmp_path / "back", 62.0, 100.0)) is None
    assert lost(kept_half(tmp_path / "lost", 62.0, missing=3)) == 3
    assert lost(kept_half(tmp_path / "twice", 62.0, missing=-2)) == -2


def test_a_policy_has_the_window_of_its_own_parameters(tmp_path: Path) -> None:
    windows = {policy: window_s(kept_half(tmp_path / policy, 62.0, policy=policy)) for policy in HALF_POLICIES}
    # A look in which the load falls and one behind it; the autoscaler waits for 40 s besides.
    assert windows == pytest.approx({DS2: 20.0, LITERAL: 40.0, OURS: 40.0, "autoscaler": 60.0})
    for scale in Scale:
        for policy in HALF_POLICIES:
            case = halved(scale, policy)
            assert window_s(SimpleNamespace(case=asdict(case))) < 0.8 * case.loads[1][1]  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", HALF_POLICIES)
def test_every_policy_takes_one_of_two_instances_away_within_its_window_and_not_before(policy: str) -> None:
    """In windows of its own, of which one has the step in its middle."""
    control = halved(Scale.SHORT, policy).control
    item = scaler(Control(**control))
    memory, number = item.policy.start(), 0
    tasks = [Task("bids", None), Task("sessions -> out", 100.0, 2, is_stateful=True, hits=1.0, get_ms=0.01)]
    (high, _), (low, _) = halved(Scale.SHORT, policy).loads

    def wanted(load: float) -> list[tuple[int, int]]:
        nonlocal memory, number
        number += 1
        job = Job(tasks, [(0, 1, 1.0)], 100 * load, reuse=[(1, 100.0, 1_000.0)])
        snapshot = measured(job, time_s=1_000.0 + number * item.every_s, window_s=item.every_s)
        decided, memory = item.policy.decide(snapshot, memory)
        return [(size.task, size.parallelism) for size in decided.tasks] if isinstance(decided, RescalePlan) else []

    before = [wanted(high) for _ in range(8)]
    assert not any((1, 1) in sizes for sizes in before), before
    looks = round(window_s(SimpleNamespace(case={"control": control})) / item.every_s)  # type: ignore[arg-type]
    after = [wanted((high + low) / 2), *(wanted(low) for _ in range(looks - 1))]
    assert any((1, 1) in sizes for sizes in after), after


@pytest.mark.parametrize(
    ("made", "met"),
    [
        ({"freed_at_s": 62.0}, True),
        ({"freed_at_s": 66.0}, False),
        ({"freed_at_s": 66.0, "policy": OURS}, True),
        ({"freed_at_s": 30.0}, False),
        ({"freed_at_s": 1e9}, False),
        ({"freed_at_s": 62.0, "missing": 1}, False),
        ({"freed_at_s": 62.0, "missing": -1}, False),
        ({"freed_at_s": 62.0, "waiting": 64.0}, True),
        ({"freed_at_s": 62.0, "waiting": 66.0}, False),
    ],
)
def test_a_load_that_halves_frees_an_instance_in_time_and_loses_nothing(
    made: Mapping[str, Any], met: bool, tmp_path: Path
) -> None:
    policy = made.get("policy", DS2)
    told = {row.row: row for row in rows([], {f"q11-{HALF}-{policy}": [kept_half(tmp_path / "one", **made)]})}
    row = told[f"q11 by {policy}: the load halves, an instance is freed"]
    assert row.met is met and row.real and f"Bids missing: {made.get('missing', 0)} of 1,000" in row.note


@pytest.mark.long("a minute on real parts; test_state_larger_than_its_memory_is_reached_past_the_page_cache")
@pytest.mark.slow
def test_a_small_query_gets_instances(tmp_path: Path) -> None:
    ((small, _),) = Wanted(Scale.SMOKE, 1).times(cases)
    end = ended(SeenRun(run_case(small, tmp_path / "q11-1").parent))
    assert end.actions >= 1 and end.stateful >= 2
    assert end.memory_bytes == end.stateful * BASE_BYTES
