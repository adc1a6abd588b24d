"""The backtest of forecasts: nothing is known before it came, and what is regular is forecast."""

import json

import numpy as np
import pytest

from penstock.benchmarks.papers import forecast
from penstock.benchmarks.papers.forecast import (
    AHEAD,
    FORECASTS,
    LOADS,
    WINDOWS,
    backtest,
    learnt_seasons,
    main,
    ratios,
    scores,
)

SEASONAL = "seasonal and damped trend"


def test_what_is_always_the_same_is_forecast_by_all() -> None:
    assert {(score.error, score.area) for score in scores(np.ones(WINDOWS)).values()} == {(0.0, 0.0)}


def test_a_season_that_is_exact_is_forecast_once_it_has_come_twice() -> None:
    season = 40
    course = np.random.default_rng(1).uniform(0.5, 1.5, season)
    seen = np.tile(course, WINDOWS // season)
    seasons = learnt_seasons(seen)
    known = seasons.index(season)
    assert known == 120 and set(seasons[known:]) == {season}
    for kind in ("seasonal naive", SEASONAL):
        made = FORECASTS[kind](seen, seasons)
        # What the level was before has faded by then.
        assert np.abs(made[known + 120 : -AHEAD] - seen[known + 120 + AHEAD :]).max() < 1e-6, kind
    assert np.abs(seen[known:-AHEAD] - seen[known + AHEAD :]).mean() > 0.1


def test_a_trend_is_gone_on_with_and_fades() -> None:
    rising = np.arange(WINDOWS, dtype=np.float64)
    made = FORECASTS["damped trend"](rising, [0] * WINDOWS)
    assert rising[-1] < made[-1] < rising[-1] + AHEAD


@pytest.mark.parametrize("load", ["flat", "random walk, 2% a window", "bursts x2.5 of a minute"])
def test_what_has_no_season_hardly_ever_seems_to(load: str) -> None:
    rng = np.random.default_rng(3)
    found = [learnt_seasons(LOADS[load](rng) * (1 + rng.normal(0, 0.03, WINDOWS)))[-1] for _ in range(10)]
    assert found.count(0) >= 8


@pytest.mark.parametrize("kind", FORECASTS)
def test_no_forecast_knows_what_comes(kind: str) -> None:
    rng = np.random.default_rng(5)
    seen = LOADS["sine of 10 min"](rng) * (1 + rng.normal(0, 0.03, WINDOWS))
    for at in (300, 441, 659):
        other = np.concatenate([seen[: at + 1], rng.uniform(0, 9, WINDOWS - at - 1)])
        made, again = (FORECASTS[kind](each, learnt_seasons(each)) for each in (seen, other))
        assert made[: at + 1] == pytest.approx(again[: at + 1], abs=1e-12)


def test_a_run_is_repeated_by_its_seed() -> None:
    first = backtest(draws=1, seed=7)
    assert backtest(draws=1, seed=7) == first != backtest(draws=1, seed=8)
    over = ratios(first)
    assert over.keys() == LOADS.keys() and over["flat"]["naive"].error == 1.0
    # What the decision rests on: a season is followed, and what jumps is not.
    assert over["sine of 10 min"][SEASONAL].area < 0.5
    assert over["bursts x2.5 of a minute"][SEASONAL].error > 1.0


def test_the_table_has_a_row_a_load(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    two = {name: LOADS[name] for name in ("flat", "sine of 24 h")}
    monkeypatch.setattr(forecast, "LOADS", two)
    assert main(["--draws", "1"]) == 0
    _, titles, *rows = capsys.readouterr().out.splitlines()
    assert all(kind in titles for kind in FORECASTS if kind != "naive")
    assert [row[:26].strip() for row in rows] == list(two)
    assert main(["--draws", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["scores"].keys() == two.keys() and told["scores"]["flat"].keys() == FORECASTS.keys()
