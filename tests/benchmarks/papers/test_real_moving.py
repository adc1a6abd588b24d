"""Scenario 1 of Stream-Economics on real parts: its application, and figures of runs whose answers are known."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.benchmarks.papers.economics.applications import SINKS
from penstock.benchmarks.papers.economics.real_cases import moves as moves_case
from penstock.benchmarks.papers.economics.real_moving import (
    COUNT,
    FIRST_SHARE,
    FULL,
    INSTANCES,
    MINIMUM,
    OTHER_EVERY,
    ROW_S,
    zoned_rides,
    zones,
)
from penstock.benchmarks.papers.economics.real_moving_figures import (
    calm_dips,
    counted,
    dips,
    failed,
    first_move,
    moves,
)
from penstock.benchmarks.papers.economics.real_moving_rows import moving_rows
from penstock.benchmarks.papers.evaluation import Row
from penstock.benchmarks.papers.real.application import Application, Setting, attribute
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.schedule import Phase
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.engine.restore.key_group_owners import owner_tables
from penstock.model.key_groups import key_groups_at
from penstock.model.plan import NoChange
from penstock.scheduler.action_log import ActionLog
from penstock.state.keys.batch_keys import KeyCodec
from tests.scheduler.scaling_jobs import Job, Task, measured

PHASES = (Phase(100.0, 15.0), Phase(200.0, 60.0))
MOVED_S = 35.0
KEY_GROUPS = 128


def made() -> Application:
    case = moves_case(30.0)
    application: Application = attribute(case.application)(
        Setting("127.0.0.1:1", tuple(case.topics), Path("unused"), None, case.options)
    )
    return application


def test_zones_lie_where_the_first_task_manager_has_too_much_and_both_together_have_not() -> None:
    graph = made().job.plan(INSTANCES, apart=True)
    tables = owner_tables(graph, KEY_GROUPS, {})
    waiting = [task for task in graph.tasks if any(COUNT in graph.node(each).name for each in task.operators)]
    assert len(waiting) == len(SINKS)
    of_sink = {json.loads(ride)["begin"] for ride in zoned_rides()} | {
        json.loads(ride)["end"] for ride in zoned_rides()
    }
    assert of_sink == {*zones(0), *zones(1)}
    for task in waiting:
        for instance in range(INSTANCES):
            hashes = KeyCodec([pa.int64()]).hash([pa.array(zones(instance))], len(zones(instance)))
            groups = key_groups_at((hashes >> np.uint64(32)).astype(np.uint32), KEY_GROUPS)
            assert set(tables[task.id][groups].tolist()) == {instance}
    first, second = (FULL * ROW_S[sink] for sink in SINKS)
    shares = np.array([first + FIRST_SHARE * second, (1 - FIRST_SHARE) * second])
    assert MINIMUM * shares[0] > 1.1 and shares.sum() < 2 * 0.8
    # Once the first sink's instance has gone, neither task manager is full.
    assert max(shares[0] - first, shares[1] + first) < 0.85


def test_every_instance_gets_its_share_of_each_partition_all_the_time() -> None:
    """As the injector deals them out: what an instance does then swings by a row or two, and not by the draw."""
    rides, partitions = [json.loads(ride) for ride in zoned_rides()], len(moves_case(30.0).shares)
    others = set(zones(1))
    for partition in range(partitions):
        is_other = [ride["end"] in others for ride in rides[partition::partitions]]
        assert len(is_other) % OTHER_EVERY == 0
        turns = np.reshape(is_other, (-1, OTHER_EVERY))
        assert turns.sum(axis=1).tolist() == [1] * len(turns)


def kept_run(folder: Path, gap_s: float, *, moved: bool = True, refused: bool = False, later: str = "") -> SeenRun:
    """Write a run in which one instance moves, while a neighbour stands still for a while; ``later`` one more does."""
    at_s = np.arange(0.0, 75.0, 0.01)
    for sink in SINKS:
        zone = np.arange(len(at_s)) % 8
        owner = (at_s >= MOVED_S) & moved if sink == SINKS[0] else zone % 4 == 3
        still = (sink != SINKS[0]) & ~owner & (at_s >= MOVED_S) & (at_s < MOVED_S + gap_s)
        rows = {"zone": zone, "n": zone, "at_ns": (at_s * 1e9).astype(np.int64), "owner": owner.astype(np.int64)}
        (folder / "job" / sink).mkdir(parents=True)
        table = pa.table({name: values[~still] for name, values in rows.items()})
        pq.write_table(table, folder / "job" / sink / "part.parquet")
    said = (
        {f"{SINKS[0]}{COUNT} -> {SINKS[0]}[0]": {"took_ms": 120.0, "key_groups": 64, "state_bytes": 9}} if moved else {}
    )
    why = {f"{SINKS[1]}{COUNT} -> {SINKS[1]}[0]": "it fits nowhere"} if refused else {}
    with ActionLog(folder / "job" / "actions.jsonl") as log:
        snapshot = measured(Job([Task("rides", None), Task("counts", 100.0)], [(0, 1, 4.0)], 50.0))
        log.snapshot(snapshot)
        log.decision(snapshot, "qod", NoChange("it fits"))
        log.result(snapshot, "qod", "applied", {"keep": {}})
        log.result(snapshot, "qod", "failed" if refused else "applied", {"moved": said, "failed": why})
        if later:
            log.result(snapshot, "qod", "applied", {"moved": {later: {"took_ms": 80.0, "key_groups": 4}}, "failed": {}})
    seen: dict[str, Any] = {
        "case": {"topics": ["rides"]}, "capacity": FULL, "capacity_after": FULL,
        "phases": [asdict(phase) for phase in PHASES], "begin_ns": 0, "job_begun_ns": -1, "queries": {},
        "broker_cpu_s": 1.0, "exact": None, "injected": [{"at_ns": 0, "cpu_s": 0.0, "delivered": {"rides": [0]}}],
        "samples": [{"at_ns": 0, "read": {"rides": 1}}],
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(seen))
    return SeenRun(folder)


def by_name(rows: list[Row]) -> dict[str, Row]:
    assert all(row.real for row in rows)
    return {row.row.split(",")[0]: row for row in rows}


@pytest.mark.parametrize(("gap_s", "dip"), [(0.0, 0.0), (0.3, 3.0), (1.0, 10.0)])
def test_a_neighbour_that_stands_still_dips_by_as_much_of_ten_seconds(tmp_path: Path, gap_s: float, dip: float) -> None:
    run = kept_run(tmp_path, gap_s)
    rows = counted(run)
    moved = first_move(run, rows)
    assert moved is not None and moved.who == (SINKS[0], 0) and moved.said["key_groups"] == 64
    assert moved.begin_s < MOVED_S <= moved.end_s < MOVED_S + 0.1 and len(moved.pauses_s) == 8
    found = dips(rows, SINKS[0], moved.begin_s, moved.end_s)
    assert found == pytest.approx({(SINKS[1], 0): dip, (SINKS[1], 1): 0.0}, abs=0.3)
    assert max(calm_dips(run, rows, moved)) < 0.3
    told = by_name(list(moving_rows([run])))
    assert told["throughput of its neighbours dips"].met is (dip <= 5.0)
    assert told[f"{SINKS[0]} moves where minimums do not fit"].met


@pytest.mark.parametrize(
    ("later", "met"), [(f"{SINKS[0]}{COUNT} -> x[1]", True), (f"{SINKS[1]}{COUNT} -> x[0]", False)]
)
def test_every_move_of_a_run_counts(tmp_path: Path, later: str, met: bool) -> None:
    told = by_name(list(moving_rows([kept_run(tmp_path, 0.0, later=later)])))
    row = told[f"{SINKS[0]} moves where minimums do not fit"]
    assert row.met is met and later in row.note and f"{SINKS[1]} never" in row.row


def test_runs_in_which_nothing_moves_say_so(tmp_path: Path) -> None:
    run = kept_run(tmp_path, 0.0, moved=False, refused=True)
    assert moves(run) == [] and failed(run) == ["it fits nowhere"] and first_move(run, counted(run)) is None
    (row,) = moving_rows([run])
    assert row.met is False and "none" in row.note and "In vain: 1" in row.note


@pytest.mark.slow
@pytest.mark.long("a minute on a broker; tests/contracts/executors/test_overload_moves.py has the move without one")
def test_the_instance_that_is_named_moves_on_real_parts(tmp_path: Path) -> None:
    run_case(moves_case(15.0), tmp_path / "moves-1")
    run = SeenRun(tmp_path / "moves-1")
    moved = first_move(run, counted(run))
    assert moved is not None and moved.who == (SINKS[0], 0), (moves(run), failed(run))
