"""Runs on real parts: what is offered when, and figures of runs whose answers are known."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.benchmarks.papers.economics.real_applications import (
    KNN_SINK,
    classified,
    nearest,
    points,
    rides,
)
from penstock.benchmarks.papers.economics.real_cases import ALL_MINIMUMS as MINIMUMS
from penstock.benchmarks.papers.economics.real_cases import cases
from penstock.benchmarks.papers.economics.real_coverage import coverage
from penstock.benchmarks.papers.economics.real_figures import (
    CycleAccuracy,
    accuracy_errors,
    calm_lag_s,
    growth_cycles,
    keeps_order,
    rate_errors,
    slope_ratio,
)
from penstock.benchmarks.papers.economics.real_scaling import QUERY
from penstock.benchmarks.papers.real.capacity import unit_ns
from penstock.benchmarks.papers.real.injector import Orders
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.schedule import Phase, TopicLoad, phase_bounds, rows_due, uneven_shares
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.dsl.job import Job
from penstock.model.errors import FatalError
from tests.command_line import penstock

PHASES = (Phase(60.0, 10.0), Phase(140.0, 20.0))


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(0.1, 100)), min_size=1, max_size=5), st.floats(0, 500))
def test_what_is_due_grows_at_the_rate_of_each_phase(given_phases: list[tuple[float, float]], at_s: float) -> None:
    phases = [Phase(*each) for each in given_phases]
    inside = sum(
        phase.rows_per_s * max(0.0, min(at_s, end) - begin)
        for phase, (begin, end) in zip(phases, phase_bounds(phases), strict=True)
    )
    assert rows_due(phases, at_s) == pytest.approx(inside, abs=1e-3)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.floats(0.1, 10), st.integers(1, 10_000), st.floats(1e3, 1e6)), min_size=1, max_size=20),
    st.floats(0, 1e6),
)
def test_a_capacity_is_of_rows_as_they_are_offered_whatever_was_read(
    sources: list[tuple[float, int, float]], shared_ns: float
) -> None:
    rates = {f"q{number}": rate for number, (rate, _, _) in enumerate(sources)}
    read = {f"q{number}": rows for number, (_, rows, _) in enumerate(sources)}
    busy_ns = {f"q{number} -> work": rows * cost_ns for number, (_, rows, cost_ns) in enumerate(sources)}
    rows = sum(read.values())
    took_ns = unit_ns(rates, read, busy_ns | {"behind an exchange": shared_ns * rows})
    assert took_ns == pytest.approx(sum(rate * (cost_ns + shared_ns) for rate, _, cost_ns in sources))


def test_a_source_of_which_nothing_was_read_has_no_price() -> None:
    with pytest.raises(FatalError, match="nothing of q2 was read"):
        unit_ns({"q1": 1.0, "q2": 1.0}, {"q1": 5, "q2": 0}, {"q1": 10.0, "q2": 0.0})


def test_partitions_differ_by_the_skew_and_get_all() -> None:
    shares = uneven_shares(4, 0.2)
    assert sum(shares) == pytest.approx(1.0) and max(shares) / min(shares) == pytest.approx(1.1 / 0.9)
    load = TopicLoad("rides", shares, "module:pool", PHASES)
    assert sum(load.due(30.0)) == pytest.approx(60 * 10 + 140 * 20, abs=4)
    assert load.due(1e9) == load.due(30.0)
    orders = Orders("127.0.0.1:1", (load,), 17)
    assert Orders.parse(orders.text()) == orders


def test_the_work_of_a_row_is_done() -> None:
    ride = json.loads(rides()[0])
    assert 0.0 < nearest({"x": ride["x"], "y": ride["y"]})["distance"] < 10.0
    assert nearest({"x": 1.5, "y": 0.5})["distance"] == pytest.approx(55.6, rel=0.05)
    point = json.loads(points()[0])
    assert classified(point)["class"] in range(4)


def test_every_case_can_be_planned_and_names_what_it_counts() -> None:
    from penstock.benchmarks.papers.real.application import Application, Setting, attribute

    for case, times in cases(Scale.SHORT, 5):
        setting = Setting("127.0.0.1:1", tuple(case.topics), Path("unused"), None, case.options)
        made: Application = attribute(case.application)(setting)
        assert times >= 1 and isinstance(made.job, Job)
        names = {node.name for node in made.job.graph.operators.values()}
        assert {where.operator for where in made.queries.values()} <= names
        assert made.queries.keys() <= {*MINIMUMS, QUERY} & names
        assert json.loads(json.dumps(asdict(case)))["name"] == case.name


def kept_run(folder: Path, taken_per_s: float, capacity: float = 100.0) -> SeenRun:
    """Write a run in which a query takes so many rows a second of what two phases offer, and all is read."""
    at_s = np.arange(-1.0, 31.0, 0.25)
    offered = [rows_due(PHASES, max(0.0, float(at))) for at in at_s]
    read = np.minimum(offered, np.maximum(at_s, 0.0) * taken_per_s)
    ns = [int(at * 1e9) for at in at_s]
    where = {"operator": "work", "topics": ["rides"]}
    seen = {
        "case": {"topics": ["rides"]},
        "capacity": capacity,
        "capacity_after": capacity,
        "phases": [asdict(phase) for phase in PHASES],
        "begin_ns": 0,
        "job_begun_ns": -1,
        "queries": {"TDSnk1": where},
        "broker_cpu_s": 3.0,
        "exact": [
            {"zone": 0, "window_start": f"1970-01-01T00:00:{second:02}.000", "rides": 100, "fares": 500.0}
            for second in range(0, 60, 5)
        ],
        "injected": [
            {"at_ns": each, "cpu_s": 0.0, "delivered": {"rides": [rows / 2, rows / 2]}}
            for each, rows in zip(ns, offered, strict=True)
        ],
        "samples": [
            {"at_ns": each, "cpu_s": each / 1e9, "read": {"rides": rows}, "taken": {"work": rows}, "shed": 0}
            for each, rows in zip(ns, read.tolist(), strict=True)
        ],
    }
    (folder / "job").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(seen))
    return SeenRun(folder)


def test_lag_and_its_slope_are_those_of_a_queue(tmp_path: Path) -> None:
    """100 rows/s are taken of 60, then 140: the lag grows by 40 a second from the tenth second on."""
    run = kept_run(tmp_path, 100.0)
    assert run.lag()[run.within(9.9, 10.1)].max() <= 40 * 0.2 + 60
    assert slope_ratio(run, 1) == pytest.approx(1.0, abs=0.4)
    assert growth_cycles(run, 1) == pytest.approx(4.0, abs=0.1)
    assert run.cpu_percent()["job"] == pytest.approx(100.0, rel=0.02)
    assert run.cpu_percent()["broker"] == pytest.approx(10.0)


def test_a_lag_of_less_than_a_second_of_input_does_not_grow(tmp_path: Path) -> None:
    run = kept_run(tmp_path, 1_000.0)
    assert growth_cycles(run, 1) == 0.0 and calm_lag_s(run, 1).max() == 0.0
    assert run.accuracy("TDSnk1", 12.0, 20.0) == pytest.approx(1.0)


def test_what_was_said_is_held_against_what_was_counted() -> None:
    seen = CycleAccuracy(
        5.0, {"lag maxima": {"q": 0.7}}, {"q": 0.75}, {"lag maxima": {"rides": 110.0}}, {"rides": 100.0}
    )
    assert accuracy_errors([seen], "lag maxima") == pytest.approx([5.0])
    assert rate_errors([seen], "lag maxima") == pytest.approx([10.0])


def test_a_query_loses_rows_only_once_the_one_below_it_is_at_its_minimum() -> None:
    def cycle(*counted: float) -> CycleAccuracy:
        return CycleAccuracy(5.0, {}, dict(zip(MINIMUMS, counted, strict=True)), {}, {})

    order = tuple(MINIMUMS)
    assert order[0] == KNN_SINK
    for counted, kept in (((1.0, 1.0, 1.0), True), ((0.2, 0.5, 1.0), True), ((0.2, 0.3, 0.7), True)):
        assert keeps_order(cycle(*counted), MINIMUMS, order) is kept
    for counted in ((1.0, 0.7, 1.0), (0.2, 0.8, 0.8), (0.6, 0.7, 1.0)):
        assert not keeps_order(cycle(*counted), MINIMUMS, order)


def test_intervals_cover_and_bare_rows_do_not(tmp_path: Path) -> None:
    run = kept_run(tmp_path, 100.0)
    interval = {"zone": 0, "accuracy": 0.5, "rides_low": 90, "rides_high": 110, "fares_low": 510.0, "fares_high": 600.0}
    whole = {**interval, "accuracy": 1.0, "window_start": "1970-01-01T00:00:05.000Z"}
    shed = {**interval, "window_start": "1970-01-01T00:00:00.000Z"}
    (run.folder / "job" / "TDSnk1.jsonl").write_text(json.dumps(shed) + "\n" + json.dumps(whole) + "\n")
    (run.folder / "job" / "TDSnk2.jsonl").write_text("")
    found = coverage(run)
    assert (found.intervals, found.covered, found.bare) == (2, 0.5, 0.0)


def test_runs_on_real_parts_are_kept_somewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert penstock("papers", "economics", "--real", "smoke") == 2
    assert "--out DIR" in capsys.readouterr().err
