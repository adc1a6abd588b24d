"""DISSP on real parts: its queries, figures of runs whose answers are known, and one small run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from penstock.benchmarks.kafka.drops import SIDES
from penstock.benchmarks.papers.dissp.real_cases import EQUAL, FAIR, FIFO, LIGHT, RANDOM, case, cases
from penstock.benchmarks.papers.dissp.real_charts import charts
from penstock.benchmarks.papers.dissp.real_drops import DropRun, drop_run
from penstock.benchmarks.papers.dissp.real_figures import (
    check_ms,
    interval_ms,
    lag_s,
    least_jain,
    longest_check_ms,
    n_sic,
    of_phase,
    offered_load,
    used,
    windows,
)
from penstock.benchmarks.papers.dissp.real_queries import (
    COST_RATIO,
    QUERIES,
    RATE_RATIO,
    costs_ns,
    names,
    rates,
    worked,
)
from penstock.benchmarks.papers.dissp.real_rows import rows
from penstock.benchmarks.papers.real.application import Application, Setting, attribute
from penstock.benchmarks.papers.real.kept_case import FINISHED
from penstock.benchmarks.papers.real.kept_runs import kept_runs, numbered
from penstock.benchmarks.papers.real.runner import run_case
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.schedule import Phase, rows_due
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.model.errors import OptionError
from penstock.shedding.sic import jain_index

PHASES = (Phase(100.0, 10.0), Phase(100.0, 20.0))
TOPICS = {"a": 1.0, "b": 2.0}
"""Two queries and their rates; a row of the first is 8 ms of work, one of the second 1 ms."""

OF_ROW_S = {"a": 0.008, "b": 0.001}


def kept_run(folder: Path, kept: Mapping[str, float], after: float = 100.0) -> SeenRun:
    """Write a run in which each query takes this share of what is offered to it, at once."""
    at_s = np.arange(-1.0, 31.0, 0.25).tolist()
    offered = {topic: [rate * rows_due(PHASES, max(0.0, at)) for at in at_s] for topic, rate in TOPICS.items()}
    last = {
        "busy_ns": {f"{query} source -> {query} work -> out": int(1e9 * OF_ROW_S[query] * 50) for query in TOPICS},
        "taken": {f"{query} work": 50 for query in TOPICS},
    }
    seen = {
        "case": {"topics": list(TOPICS), "rates": TOPICS},
        "capacity": 100.0,
        "capacity_after": after,
        "calibrated": [last, last],
        "phases": [asdict(phase) for phase in PHASES],
        "begin_ns": 0,
        "job_begun_ns": -1,
        "queries": {query: {"operator": f"{query} work", "topics": [query]} for query in TOPICS},
        "broker_cpu_s": 3.0,
        "exact": None,
        "injected": [
            {"at_ns": int(at * 1e9), "cpu_s": 0.0, "delivered": {topic: [offered[topic][row]] for topic in TOPICS}}
            for row, at in enumerate(at_s)
        ],
        "samples": [
            {
                "at_ns": int(at * 1e9),
                "cpu_s": at,
                "read": {topic: offered[topic][row] for topic in TOPICS},
                "taken": {f"{query} work": kept[query] * offered[query][row] for query in TOPICS},
                "shed": 0,
                # A figure of the job's is one second old at most; four checks of 2 ms each are made in one.
                "checks": 4 * int(max(at, 0.0)),
                "checks_ms": 8.0 * int(max(at, 0.0)),
                "longest_check_ms": 3.0,
            }
            for row, at in enumerate(at_s)
        ],
    }
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(seen))
    return SeenRun(folder)


def test_queries_have_the_ratios_that_were_asked_for_and_costs_say_nothing_of_rates() -> None:
    assert len(set(names(QUERIES))) == QUERIES
    assert rates(QUERIES)[0] == 1.0 and rates(QUERIES)[-1] == pytest.approx(RATE_RATIO)
    costs = costs_ns(QUERIES)
    assert max(costs) / min(costs) == pytest.approx(COST_RATIO, rel=1e-3) and min(costs) >= 100_000
    assert abs(np.corrcoef(rates(QUERIES), costs)[0, 1]) < 0.3


def test_a_row_burns_the_cpu_that_it_costs() -> None:
    clock = count(0, 1_000)
    row = {"group": 1, "value": 0.5}
    assert worked(row, 50_000, lambda: next(clock)) is row
    assert 50_000 <= next(clock) <= 53_000


def test_every_case_can_be_planned_and_sheds_with_its_shedder() -> None:
    wanted = cases(Scale.SHORT, 3)
    assert [(made.name, times) for made, times in wanted] == [(FAIR, 3), (RANDOM, 3), (FIFO, 3), (EQUAL, 3), (LIGHT, 1)]
    for made, _ in wanted:
        application: Application = attribute(made.application)(
            Setting("127.0.0.1:1", tuple(made.topics), Path("unused"), None, made.options)
        )
        operators = {node.name for node in application.job.graph.operators.values()}
        assert len(application.queries) == QUERIES
        assert {where.operator for where in application.queries.values()} <= operators
        assert application.queries.keys() <= operators
        assert made.control["shedder"] == (FAIR if made.name == LIGHT else made.name)


def test_runs_are_made_in_turn_so_that_whoever_stops_has_some_of_each() -> None:
    first, second = (replace(case(Scale.SHORT, name), name=name) for name in (FAIR, RANDOM))
    assert [(made.name, number) for made, number in numbered([(first, 2), (second, 1)])] == [
        (FAIR, 1), (RANDOM, 1), (FAIR, 2),
    ]  # fmt: skip


def test_runs_that_are_there_are_read_and_not_made_again(tmp_path: Path) -> None:
    # Without a broker: one that was made would fail.
    wanted = replace(case(Scale.SHORT, FAIR), application="nobody:nothing", topics=dict.fromkeys(TOPICS, ""))
    wanted = replace(wanted, rates=TOPICS)
    for number, kept in enumerate(({"a": 0.5, "b": 0.5}, {"a": 0.4, "b": 0.5}), 1):
        made = kept_run(tmp_path / f"fair-{number}", kept).folder / FINISHED
        made.write_text(json.dumps(json.loads(made.read_text()) | {"case": asdict(wanted)}))
    told: list[tuple[str, int, int]] = []
    seen = kept_runs([(wanted, 2)], tmp_path, lambda what, done, whole: told.append((what, done, whole)))
    assert [run.folder.name for run in seen[FAIR]] == ["fair-1", "fair-2"]
    assert told == [("runs", 0, 2), ("runs", 1, 2), ("runs", 2, 2)]


def test_figures_are_those_of_what_went_into_queries(tmp_path: Path) -> None:
    run = kept_run(tmp_path / "run", {"a": 0.25, "b": 0.75})
    assert of_phase(run).tolist() == pytest.approx([0.25, 0.75])
    assert n_sic(run, 12.0, 13.0).tolist() == pytest.approx([0.25, 0.75])
    assert windows(run) == [(10.0, 20.0), (20.0, 30.0)]
    assert least_jain(run) == pytest.approx(jain_index(np.array([0.25, 0.75])))
    # 100 rows/s of 8 ms and 200 of 1 ms are offered: 1 s of work in a second.
    assert offered_load(run) == pytest.approx(1.0)
    assert used(run) == pytest.approx(0.25 * 0.8 + 0.75 * 0.2)
    assert lag_s(run).max() == pytest.approx(0.0)
    assert run.rows_per_s(15.0) == pytest.approx(300.0)
    assert check_ms(run) == pytest.approx([2.0] * len(check_ms(run))) and len(check_ms(run)) >= 18
    assert interval_ms(run) == pytest.approx(2.0)
    assert longest_check_ms(run) == 3.0


def drops(*added: float) -> list[DropRun]:
    return [DropRun(1_000, dict(zip(SIDES, (0.5, 1.0, 1.0 + each), strict=True))) for each in added]


def verdicts(runs: Mapping[str, Sequence[SeenRun]], of_drops: Sequence[DropRun] = ()) -> dict[str, bool | None]:
    made = rows(runs, of_drops)
    assert all(row.real for row in made)
    return {row.row: row.met for row in made}


def test_goals_are_met_by_even_shares_and_missed_by_uneven_ones(tmp_path: Path) -> None:
    even = kept_run(tmp_path / "even", {"a": 0.5, "b": 0.5})
    uneven = kept_run(tmp_path / "uneven", {"a": 0.2, "b": 0.9})
    all_there = kept_run(tmp_path / "light", {"a": 1.0, "b": 1.0})
    good = verdicts({FAIR: [even], RANDOM: [uneven], EQUAL: [uneven], LIGHT: [all_there]}, drops(0.05, 0.2, 0.08))
    fair = ("Jain's index of nSIC", "spread of nSIC", "poorest query", "Jain's index of equal CPU")
    assert all(good[name] for name in fair)
    assert good["CPU of a check"] and good["CPU of checks in 250 ms, mean"] and good["a drop, beyond the fetch"]
    # Half of the work of a core is done, and the load is no overload: both are said.
    assert good["throughput, of the capacity"] is False and good["work offered, of the capacity"] is False
    bad = verdicts({FAIR: [uneven], RANDOM: [even], EQUAL: [even]}, drops(0.12))
    assert not any(bad[name] for name in (*fair, "a drop, beyond the fetch"))
    # Nothing is said of rivals that were not run.
    alone = verdicts({FAIR: [even]})
    assert (
        alone["spread of nSIC"] is None
        and "Jain's index of FIFO" not in alone
        and "a drop, beyond the fetch" not in alone
    )


def test_a_capacity_that_did_not_hold_still_is_named(tmp_path: Path) -> None:
    run = kept_run(tmp_path / "fair-1", {"a": 0.5, "b": 0.5}, after=80.0)
    (row,) = [row for row in rows({FAIR: [run]}, ()) if row.row.startswith("capacity after")]
    assert row.met is False and "fair-1" in row.note


def test_charts_show_every_shedder_but_no_light_load(tmp_path: Path) -> None:
    runs = {name: [kept_run(tmp_path / name, {"a": 0.5, "b": 0.25})] for name in (FAIR, RANDOM, LIGHT)}
    made = {chart.name: chart for chart in charts(runs)}
    assert made.keys() == {"real_nsic", "real_jain", "real_lag"}
    for chart in made.values():
        assert [line.name for line in chart.lines] == [FAIR, RANDOM]
        assert all(len(line.x) == len(line.y) for line in chart.lines)
    assert made["real_nsic"].lines[0].y == pytest.approx([0.25, 0.5])


@pytest.mark.slow
def test_a_small_run_sheds_on_a_real_broker_and_is_kept(tmp_path: Path) -> None:
    # The phase that is looked at lies behind the first source time window: rows of its begin count for more.
    small = replace(case(Scale.SMOKE, FAIR, queries=3), loads=((6.0, 12.0), (6.0, 6.0)), calibration_rows=100)
    finished = run_case(small, tmp_path / "fair-1")
    written = finished.read_bytes()
    assert run_case(small, tmp_path / "fair-1") == finished and finished.read_bytes() == written
    run = SeenRun(tmp_path / "fair-1")
    assert run.shed > 0 and run.capacity > 0
    share = of_phase(run)
    # Beside other programs a query may get nothing in six seconds.
    assert len(share) == 3 and share.min() >= 0.0 and 0.0 < share.max() <= 1.0
    # Loads are those of one rate times the rates of the topics.
    offered = [run.offered([topic]).rows[-1] for topic in run.topics]
    assert [each / offered[0] for each in offered] == pytest.approx(rates(3).tolist(), rel=0.1)
    assert check_ms(run) and longest_check_ms(run) > 0.0


@pytest.mark.slow
def test_what_a_drop_costs_is_measured_once(tmp_path: Path) -> None:
    measured = drop_run(20_000, tmp_path / "drop-1")
    assert measured.rows == 20_000 and all(measured.row_us[side] > 0.0 for side in SIDES)
    assert drop_run(20_000, tmp_path / "drop-1") == measured


def test_a_drop_of_other_rows_is_refused(tmp_path: Path) -> None:
    plain = {"rows": 10, "cpu_s": [dict.fromkeys(SIDES, 1.0)]}
    (tmp_path / FINISHED).write_text(json.dumps(plain))
    assert drop_run(10, tmp_path).rows == 10
    with pytest.raises(OptionError, match="has a run with 10 rows, and 1,000 are asked for"):
        drop_run(1_000, tmp_path)
