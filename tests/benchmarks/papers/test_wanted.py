"""Cases of a paper's runs on real parts can be had one by one, and give the rows that they allow."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.benchmarks.papers.dissp import real_cases as dissp
from penstock.benchmarks.papers.dissp.real_charts import charts as dissp_charts
from penstock.benchmarks.papers.dissp.real_rows import rows as dissp_rows
from penstock.benchmarks.papers.economics import real_cases as economics
from penstock.benchmarks.papers.economics.real_rows import rows as economics_rows
from penstock.benchmarks.papers.economics.real_scaling import ALONE, BLIND, TOGETHER
from penstock.benchmarks.papers.evaluation import Chart, Row
from penstock.benchmarks.papers.flink_er import real_cases as flink_er
from penstock.benchmarks.papers.flink_er.real_charts import charts as flink_er_charts
from penstock.benchmarks.papers.flink_er.real_rows import rows as flink_er_rows
from penstock.benchmarks.papers.justin import real_cases as justin
from penstock.benchmarks.papers.justin.real_rows import charts as justin_charts
from penstock.benchmarks.papers.justin.real_rows import rows as justin_rows
from penstock.benchmarks.papers.real import kept_runs
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.wanted import Times, Wanted
from penstock.benchmarks.papers.sage import real_cases as sage
from penstock.benchmarks.papers.sage.real_rows import charts as sage_charts
from penstock.benchmarks.papers.sage.real_rows import rows as sage_rows
from penstock.model.errors import OptionError
from tests.benchmarks.papers import (
    test_real,
    test_real_dissp,
    test_real_flink_er,
    test_real_justin,
    test_real_moving,
    test_real_moving_knn,
    test_real_sage,
    test_real_scaling,
)
from tests.command_line import penstock

PAPERS: Mapping[str, Callable[[Scale, int], Times]] = {
    "dissp": dissp.cases,
    "economics": economics.cases,
    "flink_er": flink_er.cases,
    "justin": justin.cases,
    "sage": sage.cases,
}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_scale_has_the_same_names_and_some_are_run_where_none_is_named(paper: str) -> None:
    names = {scale: [case.name for case, _ in PAPERS[paper](scale, 5)] for scale in Scale}
    for scale, own in names.items():
        assert own == names[Scale.FULL] and len(set(own)) == len(own)
        usual = Wanted(scale, 5).times(PAPERS[paper])
        assert usual and all(times >= 1 for _, times in usual)
        assert Wanted(scale, 7, (own[-1], own[0])).times(PAPERS[paper]) == [
            (case, 7) for case, _ in PAPERS[paper](scale, 7) if case.name in (own[0], own[-1])
        ]
    assert sum(times for _, times in Wanted(Scale.SMOKE, 5).times(PAPERS[paper])) <= 2


def test_a_name_that_there_is_not_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(OptionError, match=r"there is no case 'fare': cases are fair, random, .*light, drops$"):
        Wanted(Scale.SHORT, 1, ("fair", "fare")).times(dissp.cases, ["drops"])
    assert Wanted(Scale.SHORT, 1, ("drops",)).times(dissp.cases, ["drops"]) == []
    assert Wanted(Scale.SHORT, 1).has("drops") and not Wanted(Scale.SHORT, 1, ("fair",)).has("drops")


Runs = Mapping[str, Sequence[Any]]


def drawn(paper: str, runs: Runs) -> tuple[Sequence[Row], Sequence[Chart]]:
    if paper == "dissp":
        return dissp_rows(runs, ()), dissp_charts(runs)
    if paper == "flink_er":
        return flink_er_rows(runs), flink_er_charts(runs)
    if paper == "justin":
        return justin_rows((), runs), justin_charts((), runs)
    if paper == "sage":
        return sage_rows(runs), sage_charts(runs)
    return economics_rows(runs), ()


def kept(paper: str, name: str, folder: Path) -> Any:
    """Write a run of a case alone."""
    if paper == "dissp":
        return test_real_dissp.kept_run(folder, {"a": 0.5, "b": 0.5})
    if paper == "flink_er":
        return test_real_flink_er.kept_run(folder)
    if paper == "justin":
        if justin.HALF in name:
            return test_real_justin.kept_half(folder, 62.0, policy=name.removeprefix(f"q11-{justin.HALF}-"))
        return test_real_justin.kept_query(folder, 158.0, 2)
    if paper == "sage":
        return test_real_sage.kept(folder, 0.1, 0.5)
    if name == economics.MOVES:
        return test_real_moving.kept_run(folder, 0.0)
    if name == economics.MOVES_KNN:
        own = test_real_moving_knn
        return own.kept_run(folder, own.SHOWN, [own.instance(own.ONE, 0)])
    if name in (TOGETHER, ALONE, BLIND):
        return test_real_scaling.kept_run(folder, test_real_scaling.GREW, 0.5, 1.0, 0.0)
    return test_real.kept_run(folder, 100.0)


OF_A_LOG = {economics.SHED, economics.BOTH_SHED, economics.KNN_SHED, economics.LAG_MAXIMA}
"""What a job decided is held against what was counted: a run whose counts alone are known has no such rows."""


@pytest.mark.parametrize(
    ("paper", "name"),
    [
        (paper, case.name)
        for paper, cases in PAPERS.items()
        for case, _ in cases(Scale.SHORT, 1)
        if case.name not in OF_A_LOG
    ],
)
def test_each_case_alone_has_rows_on_real_parts(paper: str, name: str, tmp_path: Path) -> None:
    rows, charts = drawn(paper, {name: [kept(paper, name, tmp_path / "one")]})
    assert rows and all(row.real for row in rows)
    assert all(chart.lines for chart in charts)


def test_no_runs_but_of_drops_have_the_row_of_drops() -> None:
    (row,) = dissp_rows({}, test_real_dissp.drops(0.05))
    assert row.real and row.met and dissp_charts({}) == ()


def test_named_cases_are_run_as_often_as_draws_say_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = list[str]()

    def run_case(case: RealCase, folder: Path) -> None:
        made.append(f"{case.name} as {folder.name}")
        test_real_justin.kept_query(folder, 158.0, 2)

    monkeypatch.setattr(kept_runs, "run_case", run_case)
    chosen = ("--case", "q11-ds2", "--case", "q11-justin-step", "--draws", "2")
    assert penstock("papers", "justin", "--real", "short", *chosen, "--out", tmp_path) == 0
    assert made == [
        "q11-ds2 as q11-ds2-1", "q11-justin-step as q11-justin-step-1",
        "q11-ds2 as q11-ds2-2", "q11-justin-step as q11-justin-step-2",
    ]  # fmt: skip
    assert "q11 by justin: the load doubles" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert all(row["real"] for row in rows) and {row["ours"]["draws"] for row in rows} <= {2, 4}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--real", "short", "--case", "moves-kn"], "no case 'moves-kn': cases are shed, off, minimum-1"),
        (["--case", "moves"], "say at which scale, --real SCALE"),
    ],
)
def test_a_case_that_there_is_not_is_wrong_usage(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert penstock("papers", "economics", *arguments, "--out", tmp_path) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not [*tmp_path.iterdir()]
