"""Sage on real parts: what the rows make of runs that are known, an HTTP service that is slow, and a small run."""

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.benchmarks.papers.real.application import Application, Setting, attribute
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.schedule import Phase, rows_due
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.benchmarks.papers.real.wanted import Wanted
from penstock.benchmarks.papers.sage.real_applications import QUERY, serve
from penstock.benchmarks.papers.sage.real_cases import ALL, CPU, FIRST, GRID, MEMORY, cases, sized
from penstock.benchmarks.papers.sage.real_figures import Action, actions, end_p95, keeps_order, late_share, undone
from penstock.benchmarks.papers.sage.real_rows import charts, had, optimum, rows
from penstock.engine.control.application_use import with_use
from penstock.engine.control.steering import scaler
from penstock.model.control import Control
from penstock.model.plan import ApplicationSize, NoChange, RescalePlan
from penstock.scheduler.action_log import ActionLog
from tests.engine.control.test_application_use import MB, snapshot, window


def kept(
    folder: Path, late_s: float, cores: float, done: Sequence[str] = (), budget_mb: float = 8.0, threads: int = 2
) -> SeenRun:
    """Write a run whose rows are so late, that ends with these sizes, and in which this was done."""
    phases = (Phase(10.0, 30.0),)
    (folder / "job" / QUERY).mkdir(parents=True)
    seen = with_use(snapshot(budget=budget_mb * MB), [window(1.0)] * threads, cores, threads)
    with ActionLog(folder / "job" / "actions.jsonl") as log:
        log.snapshot(seen)
        log.decision(seen, "sage", NoChange("no rule asks for anything"))
        for number, reason in enumerate(done, start=2):
            at = asdict_with_number(seen, number)
            log.snapshot(at)
            log.decision(at, "sage", RescalePlan(f"job: {reason}", applications=(ApplicationSize(0, cores=1.0),)))
            log.result(at, "sage", "begun", {})
            log.result(at, "sage", "applied", {})
    at_s = np.arange(0.0, 30.0, 0.1)
    table = {
        "key": at_s.astype(np.int64),
        "late_ms": np.full(300, int(late_s * 1e3)),
        "at_ns": (at_s * 1e9).astype(np.int64),
    }
    pq.write_table(pa.table(table), folder / "job" / QUERY / "part.parquet")
    looks = [0.0, 10.0, 20.0, 30.0]
    sample = {"cpu_s": 0.0, "read": {"rows": 1}, "taken": {QUERY: 1}, "shed": 0}
    delivered = [{"at_ns": int(at * 1e9), "cpu_s": 0.0, "delivered": {"rows": [rows_due(phases, at)]}} for at in looks]
    run: Mapping[str, Any] = {
        "case": {"topics": ["rows"]}, "capacity": 10.0, "capacity_after": 10.0,
        "phases": [asdict(phase) for phase in phases], "begin_ns": 0, "job_begun_ns": -1, "queries": {},
        "broker_cpu_s": 3.0, "exact": None, "injected": delivered,
        "samples": [{**sample, "at_ns": int(at * 1e9), "waiting": {"rows": 0}} for at in looks],
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    return SeenRun(folder)


def asdict_with_number(seen: Any, number: int) -> Any:
    return type(seen).from_dict({**seen.as_dict(), "number": number})


ORDER = ("memory up, 1 -> 2", "CPU up, 1 -> 1.5", "parallelism up, 1 -> 2", "CPU down, 2 -> 1")


def test_actions_are_read_in_order(tmp_path: Path) -> None:
    run = kept(tmp_path / "one", 0.1, 1.0, ORDER)
    done = actions(run.folder / "job" / "actions.jsonl")
    assert [(each.what, each.is_up) for each in done] == [
        ("memory", True), ("CPU", True), ("parallelism", True), ("CPU", False),
    ]  # fmt: skip
    assert keeps_order(done) and undone(done) == 0
    assert undone([*done, Action("CPU", is_up=True, number=9)]) == 1
    other = actions(kept(tmp_path / "two", 0.1, 1.0, (ORDER[2], ORDER[0])).folder / "job" / "actions.jsonl")
    assert not keeps_order(other)


def test_an_optimum_is_the_least_of_those_from_which_on_nothing_is_late(tmp_path: Path) -> None:
    late = {0.65: 0.1, 0.57: 0.2, 0.5: 0.1, 0.42: 0.9, 0.35: 0.2}
    runs = {f"{CPU}-at-{value:g}": [kept(tmp_path / f"{value}", late_s, value)] for value, late_s in late.items()}
    assert set(late) == set(GRID[CPU]) and optimum(runs, CPU) == 0.5
    assert optimum({}, CPU) is None and optimum({f"{CPU}-at-0.65": [kept(tmp_path / "x", 5.0, 0.65)]}, CPU) is None
    run = runs[f"{CPU}-at-0.5"][0]
    assert had(run, CPU) == 0.5 and had(run, MEMORY) == pytest.approx(16.0)
    assert end_p95(run) == pytest.approx(0.1) and late_share(run) == 0.0
    assert late_share(runs[f"{CPU}-at-0.42"][0]) == 1.0


def test_rows_say_what_was_met_and_what_was_not(tmp_path: Path) -> None:
    runs = {
        f"{CPU}-at-{value:g}": [kept(tmp_path / f"g{value}", 0.1 if value >= 0.5 else 2.0, value)]
        for value in GRID[CPU]
    }
    runs[CPU] = [kept(tmp_path / f"cpu-{number}", 0.1, cores) for number, cores in enumerate((0.5, 0.55, 0.56))]
    runs[ALL] = [kept(tmp_path / "all", 0.1, 1.0, ORDER)]
    runs[FIRST] = [kept(tmp_path / "first", 2.0, 1.0, (ORDER[2], ORDER[0]))]
    runs["service-slow"] = [kept(tmp_path / "slow", 0.1, 1.0)]
    runs["service-slow-no-guard"] = [kept(tmp_path / "open", 0.1, 1.0, (ORDER[2],))]
    runs["service-loaded"] = [kept(tmp_path / "loaded", 0.1, 1.0, (ORDER[2],))]
    found = {row.row: row for row in rows(runs)}
    assert [row.met for row in found.values() if row.goal] == [True] * 6
    assert all(row.real for row in found.values())
    runs[CPU].append(kept(tmp_path / "much", 0.7, 0.7))
    runs["service-slow"] = runs["service-loaded"]
    runs["service-loaded"] = runs["service-slow-no-guard"] = [kept(tmp_path / "calm", 0.1, 1.0)]
    runs[ALL], runs[FIRST] = runs[FIRST], runs[ALL]
    assert [row.met for row in rows(runs) if row.goal] == [False] * 6
    assert {chart.name for chart in charts(runs)} == {"real_late", "real_cores"}


def test_every_run_can_be_had_and_names_are_its_own() -> None:
    made = [case for case, _ in cases(Scale.SHORT, 5)]
    assert len({case.name for case in made}) == len(made)
    for case in made:
        item = scaler(Control(**case.control))
        assert item.every_s == pytest.approx(3_600.0 if "-at-" in case.name else 1.0)
        setting = Setting("127.0.0.1:1", tuple(case.topics), Path("unused"), None, case.options)
        application: Application = attribute(case.application)(setting)
        plan = application.job.plan(case.start["parallelism"], apart=True)
        assert [task.parallelism for task in plan.tasks if QUERY in plan.name(task).split(" -> ")] == [
            case.task_managers
        ]
    assert sized(MEMORY, 6.0).start["state_bytes"] == 6 * MB


def test_a_service_answers_later_while_it_is_slow() -> None:
    now_s = [0.0]
    host, port = serve(0.0, 0.3, 10.0, 20.0, lambda: now_s[0])

    def took_s(at_s: float) -> float:
        now_s[0] = at_s
        asked_s = time.monotonic()
        connection = http.client.HTTPConnection(host, port, timeout=30)
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"ok"
        return time.monotonic() - asked_s

    # Of several the quickest counts: another process may have had the core.
    assert min(took_s(15.0) for _ in range(3)) >= 0.3
    assert min(min(took_s(9.0), took_s(21.0)) for _ in range(10)) < 0.3


@pytest.mark.long("a minute on real parts; test_rows_say_what_was_met_and_what_was_not has runs that are known")
@pytest.mark.slow
def test_a_small_run_on_a_broker(tmp_path: Path) -> None:
    ((case, _),) = Wanted(Scale.SMOKE, 1).times(cases)
    run_case(case, tmp_path / "cpu-1")
    run = SeenRun(tmp_path / "cpu-1")
    done = actions(run.folder / "job" / "actions.jsonl")
    assert done[:1] == [Action("CPU", is_up=True, number=done[0].number)] and had(run, CPU) > 0.2
    assert next(row.row for row in rows({CPU: [run]})).startswith("runs in which 95 of 100 rows")
