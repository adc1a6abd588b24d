"""A backtest of forecasts of the offered rate: would one be a better target of a scaler than the last window? Pure.

``python -m penstock.benchmarks.papers.forecast`` holds four others against the last window on made-up loads, a minute
ahead: a window, the cool-down, and the time that instances need to come. A season is not told but learnt from what was
seen since the start, as a policy would have to (docs/decisions/0145-scalers-are-not-fed-a-forecast.md).
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats

WINDOW_S = 10
AHEAD = 6
"""Windows from what was seen last to what is forecast."""
WINDOWS = 720
"""Of a load: two hours."""
FIRST = 60
"""Forecasts count from this window on."""
RELEARNT = 60
"""So many windows apart it is tried whether there is a season, and what it is like."""
DRAWS = 20
NOISE = 0.03
INSTANCE = 0.1
"""What an instance takes, of the mean load of 1."""

LEVEL, TREND, DAMPING = 0.5, 0.1, 0.9
"""How much of the level and of the trend is that of the last window, and how much of a trend is left a window later."""
LIKE, AS_LIKE = 0.6, 0.05
"""The least correlation of a load with itself a season before, and what may lack to the best."""
FORGOTTEN, BETTER = 0.98, 0.9
"""How much of an old error is left a window later, and below which part of the naive one's errors another is taken."""
LEAST_SEASON = 12
"""Windows: shorter ones are less than two forecasts."""


def flat(rng: np.random.Generator) -> Floats:
    """Return the same throughout."""
    return np.ones(WINDOWS)


def sine(minutes: float) -> Callable[[np.random.Generator], Floats]:
    """Return waves of half the mean, of which each lasts so long."""

    def draw(rng: np.random.Generator) -> Floats:
        turns = np.arange(WINDOWS) * WINDOW_S / (60 * minutes) + rng.random()
        return np.asarray(1 + 0.5 * np.sin(2 * np.pi * turns))

    return draw


def walk(rng: np.random.Generator) -> Floats:
    """Return a random walk of 2% a window."""
    return np.asarray(np.exp(np.cumsum(rng.normal(0, 0.02, WINDOWS))))


def steps(rng: np.random.Generator) -> Floats:
    """Return a load that is doubled and halved every 20 minutes."""
    minutes = (np.arange(WINDOWS) * WINDOW_S + rng.integers(0, 2_400)) // 1_200
    return np.where(minutes % 2 == 0, 2 / 3, 4 / 3)


def steps_at_random(rng: np.random.Generator) -> Floats:
    """Return a load that is doubled and halved after times of 20 minutes in the mean."""
    changes = rng.random(WINDOWS) < WINDOW_S / 1_200
    return np.where(np.cumsum(changes) % 2 == 0, 2 / 3, 4 / 3)


def bursts(rng: np.random.Generator) -> Floats:
    """Return bursts of 2.5 times the load, of a minute each, ten minutes apart in the mean."""
    begins = rng.random(WINDOWS) < WINDOW_S / 600
    in_burst = np.convolve(begins, np.ones(60 // WINDOW_S))[:WINDOWS] > 0
    return np.where(in_burst, 2.5, 1.0) / 1.15


LOADS: Mapping[str, Callable[[np.random.Generator], Floats]] = {
    "flat": flat,
    "sine of 24 h": sine(1_440),
    "sine of 30 min": sine(30),
    "sine of 10 min": sine(10),
    "random walk, 2% a window": walk,
    "steps x2 every 20 min": steps,
    "steps x2 at random": steps_at_random,
    "bursts x2.5 of a minute": bursts,
}


def naive(seen: Floats, seasons: Sequence[int]) -> Floats:
    """Return for each window the forecast made in it: the load that it has."""
    return seen.copy()


def damped_trend(seen: Floats, seasons: Sequence[int]) -> Floats:
    """Return Holt's forecast: the level, and what is left of the trend in each window until then."""
    level, trend, made = float(seen[0]), 0.0, np.empty(len(seen))
    reach = sum(DAMPING**step for step in range(1, AHEAD + 1))
    for at, value in enumerate(seen.tolist()):
        before = level
        level = LEVEL * value + (1 - LEVEL) * (level + DAMPING * trend)
        trend = TREND * (level - before) + (1 - TREND) * DAMPING * trend
        made[at] = level + reach * trend
    return np.maximum(made, 0.0)


def seasonal_naive(seen: Floats, seasons: Sequence[int]) -> Floats:
    """Return what the load was a season before the time that is forecast, and where none is known, what it is."""
    made = seen.copy()
    for at, season in enumerate(seasons):
        if season:
            made[at] = seen[at + AHEAD - season]
    return made


def seasonal_damped_trend(seen: Floats, seasons: Sequence[int]) -> Floats:
    """Return the mean course of a season, as far as it is known, and Holt's forecast of what differs from it."""
    made = np.empty(len(seen))
    for begin in range(0, len(seen), RELEARNT):
        end = min(begin + RELEARNT, len(seen))
        course = _course(seen[:begin], seasons[begin], end + AHEAD)
        made[begin:end] = damped_trend(seen[:end] - course[:end], seasons)[begin:] + course[begin + AHEAD :]
    return np.maximum(made, 0.0)


def better_of_late(seen: Floats, seasons: Sequence[int]) -> Floats:
    """Return the last of these where it has been better than the first of late by a tenth, else the first."""
    first, last = naive(seen, seasons), seasonal_damped_trend(seen, seasons)
    errors = np.zeros((2, len(seen)))
    for kind, made in enumerate((first, last)):
        for at in range(AHEAD, len(seen)):
            errors[kind, at] = FORGOTTEN * errors[kind, at - 1] + abs(made[at - AHEAD] - seen[at])
    return np.where(errors[1] < BETTER * errors[0], last, first)


Forecast = Callable[[Floats, Sequence[int]], Floats]
"""What was seen of a load, and its season as it was known in each window: the forecast that is made in each."""

FORECASTS: Mapping[str, Forecast] = {
    "naive": naive,
    "damped trend": damped_trend,
    "seasonal naive": seasonal_naive,
    "seasonal and damped trend": seasonal_damped_trend,
    "the better of late": better_of_late,
}


def learnt_seasons(seen: Floats) -> list[int]:
    """Return for each window the season, in windows, that shows in what was seen before it; 0: none does.

    It has come twice, and the load is like itself a season before, more than shortly before or after.
    """
    found, season = list[int](), 0
    for at in range(len(seen)):
        if at % RELEARNT == 0:
            season = _season_of(seen[:at])
        found.append(season)
    return found


def _season_of(seen: Floats) -> int:
    lags = np.arange(LEAST_SEASON, len(seen) // 2 + 1)
    if len(lags) < 3 or not np.ptp(seen):
        return 0
    like = np.array([np.corrcoef(seen[lag:], seen[:-lag])[0, 1] for lag in lags.tolist()])
    peaks = (like[1:-1] >= like[:-2]) & (like[1:-1] >= like[2:]) & (like[1:-1] >= LIKE)
    # What is like itself after a moment only changes slowly.
    peaks &= np.minimum.accumulate(like)[1:-1] < LIKE / 2
    if not peaks.any():
        return 0
    # Of a season and its multiples the shortest: it has come most often.
    return int(lags[1:-1][peaks & (like[1:-1] >= like[1:-1][peaks].max() - AS_LIKE)][0])


def _course(seen: Floats, season: int, windows: int) -> Floats:
    """Return how far the load of a season lies from its mean, repeated over so many windows; nothing without one."""
    if not season:
        return np.zeros(windows)
    whole = len(seen) // season
    mean = np.zeros(season)
    used = seen[len(seen) - whole * season :].reshape(whole, season).mean(axis=0)
    mean[(np.arange(season) + len(seen) - whole * season) % season] = used - used.mean()
    return mean[np.arange(windows) % season]


@dataclass(frozen=True, slots=True)
class Score:
    """How far a forecast was off, of the mean load, and the instances too many and too few, in the mean."""

    error: float
    area: float


def scores(offered: Floats) -> dict[str, Score]:
    """Return how each forecast fares on a load: it says in each window what comes `AHEAD` windows later."""
    seasons = learnt_seasons(offered)
    return {kind: _scored(forecast(offered, seasons), offered) for kind, forecast in FORECASTS.items()}


def _scored(made: Floats, offered: Floats) -> Score:
    made, came = made[FIRST:-AHEAD], offered[FIRST + AHEAD :]
    needed, given = (np.maximum(np.ceil(each / INSTANCE - 1e-9), 1) for each in (came, made))
    return Score(float(np.abs(made - came).mean()), float(np.abs(given - needed).mean()))


def backtest(draws: int = DRAWS, seed: int = 145) -> dict[str, dict[str, Score]]:
    """Return the mean score of each forecast on each load."""
    found: dict[str, dict[str, Score]] = {}
    for number, (name, load) in enumerate(LOADS.items()):
        rng = np.random.default_rng([seed, number])
        drawn = [scores(load(rng) * (1 + rng.normal(0, NOISE, WINDOWS))) for _ in range(draws)]
        found[name] = {
            kind: Score(*(sum(getattr(one[kind], of) for one in drawn) / draws for of in ("error", "area")))
            for kind in FORECASTS
        }
    return found


def ratios(found: Mapping[str, Mapping[str, Score]]) -> dict[str, dict[str, Score]]:
    """Return each score over that of the naive forecast."""
    return {
        load: {
            kind: Score(each.error / scores["naive"].error, each.area / scores["naive"].area)
            for kind, each in scores.items()
        }
        for load, scores in found.items()
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row a load."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.papers.forecast", description=__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N", help=f"loads of each kind; default: {DRAWS}")
    parser.add_argument("--seed", type=int, default=145, metavar="N", help="default: 145")
    parser.add_argument("--json", action="store_true", help="the scores themselves, as JSON")
    options = parser.parse_args(argv)
    found = backtest(options.draws, options.seed)
    if options.json:
        plain = {load: {kind: [each.error, each.area] for kind, each in row.items()} for load, row in found.items()}
        print(json.dumps({"seed": options.seed, "draws": options.draws, "scores": plain}))
        return 0
    others = [kind for kind in FORECASTS if kind != "naive"]
    print("error / area over those of the last window")
    print(f"{'load':<26}" + "".join(f"{kind:>28}" for kind in others))
    for load, row in ratios(found).items():
        print(f"{load:<26}" + "".join(f"{f'{row[kind].error:.2f} / {row[kind].area:.2f}':>28}" for kind in others))
    return 0


if __name__ == "__main__":
    sys.exit(main())
