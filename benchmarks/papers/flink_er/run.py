"""The whole Flink-ER evaluation, deterministic by seed. Called through `EVALUATION`."""

from collections.abc import Sequence
from dataclasses import replace

from penstock.benchmarks.papers.cluster_model.action_logs import LoggedRun
from penstock.benchmarks.papers.cluster_model.loop import Run
from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.evaluation import (
    Chart,
    ChartLine,
    Progress,
    Result,
    Row,
    collected,
    draw_seeds,
    figures_by_name,
    share,
    spread,
)
from penstock.benchmarks.papers.flink_er.rivals import Hottest
from penstock.benchmarks.papers.flink_er.state_cost import costs, replaced
from penstock.benchmarks.papers.flink_er.word_count import WordCountCase, parameters, ran, recovery_s, rescaled
from penstock.scheduler.flink_er import FlinkEr

OURS = FlinkEr()
ONE_MORE = FlinkEr(jump=False)
TASKS = ("split", "count")
ZIPF = (0.5, 1.0)
"""Exponents of the shares of key groups; the rows without one have uniform keys."""


def run(seed: int, draws: int, progress: Progress) -> Result:
    """Return rows, charts and logs; each headline row rests on so many draws of the parameters."""
    seeds = draw_seeds(seed, draws)
    rows = [
        *_step_rows(seed, seeds, progress),
        *(_skewed_row(seed, seeds, progress, zipf) for zipf in ZIPF),
        _spare_row(seed, seeds, progress),
        *_state_rows(seed, seeds),
    ]
    chart, logs = _lags(seeds[0])
    return Result(tuple(rows), (chart, _break_chart(seeds)), logs)


def _step_rows(seed: int, seeds: Sequence[int], progress: Progress) -> list[Row]:
    """The load doubles: who is named, how long the lag lasts, and that nothing is done while the load fits."""

    def of_draw(draw: int) -> dict[str, float]:
        figures, case = parameters(draw), WordCountCase(TASKS[draw % 2])
        acted, slow, other, alone = (
            ran(figures, case, policy, draw)[1] for policy in (OURS, ONE_MORE, Hottest(), None)
        )
        _, quiet = ran(figures, WordCountCase(case.narrow, rises=False), OURS, draw)
        names, fits = acted.series.tasks, recovery_s(figures, alone) == 0
        # Where what is drawn carries the load after the step too, there is no bottleneck, and nobody may be named.
        right = None if fits else case.narrow
        return {
            "fits": fits,
            "named": _first(acted, names) == right,
            "rival named": _first(other, names) == right,
            "acts": bool(rescaled(quiet)),
            "ours": recovery_s(figures, acted),
            "one more": recovery_s(figures, slow),
            "hottest": recovery_s(figures, other),
            "nobody": recovery_s(figures, alone),
            "calm": recovery_s(figures, quiet),
        }

    draws = figures_by_name(seeds, "WordCount under a step of load", progress, of_draw)
    named, rival_named, acts, fitting = (share(draws[name]) for name in ("named", "rival named", "acts", "fits"))
    ours, nobody, calm = (spread(draws[name]) for name in ("ours", "nobody", "calm"))
    return [
        Row(
            seed, "the marked task is the narrow one", "-", ">= 0.95 of draws", named, rival_named, acts,
            named.median >= 0.95 and acts.median <= 0.05,
            note=f"or nobody where the load fits even after the step ({fitting.median:.0%} of draws); "
            "control: draws with an action without a step",
        ),
        Row(
            seed, "lag over 1 s of input after the step, uniform keys", "about 60 s", "<= 60 s", ours, nobody, calm,
            ours.median <= 60 and calm.median <= 5, "s",
            "baseline: nobody acts, to the end of the run; control: no step",
        ),
        Row(seed, "the same, one instance at a time", "-", "-", spread(draws["one more"]), nobody, unit="s"),
        Row(seed, "the same, the hottest task grows", "-", "-", spread(draws["hottest"]), nobody, unit="s"),
    ]  # fmt: skip


def _skewed_row(seed: int, seeds: Sequence[int], progress: Progress, zipf: float) -> Row:
    """The same step where keys come unequally often, and the task that counts by key is the narrow one."""

    def of_draw(draw: int) -> dict[str, float]:
        case, figures = WordCountCase("count", zipf=zipf), parameters(draw)
        _, acted = ran(figures, case, OURS, draw)
        _, alone = ran(figures, case, None, draw)
        _, quiet = ran(figures, replace(case, rises=False), OURS, draw)
        return {
            "ours": recovery_s(figures, acted),
            "nobody": recovery_s(figures, alone),
            "calm": recovery_s(figures, quiet),
            "hot": any("hot key" in record.decision.reason for record in acted.records),
        }

    draws = figures_by_name(seeds, f"keys by Zipf {zipf:g}", progress, of_draw)
    ours, hot = spread(draws["ours"]), sum(draws["hot"])
    return Row(
        seed, f"lag over 1 s of input after the step, keys by Zipf {zipf:g}", "about 60 s", "<= 60 s", ours,
        spread(draws["nobody"]), spread(draws["calm"]), ours.median <= 60, "s",
        f"the paper's keys are those of a text; a hot key named in {hot} of {len(seeds)} draws; "
        "baseline: nobody acts; control: no step, where skew alone may ask for moves",
    )  # fmt: skip


def _spare_row(seed: int, seeds: Sequence[int], progress: Progress) -> Row:
    """One machine has foreign load and others spare capacity: what routes alone gain."""

    def gain(figures: Parameters, draw: int, foreign: bool) -> float:
        case = WordCountCase("split", foreign=foreign)
        routed, alone = (ran(figures, case, policy, draw)[1] for policy in (FlinkEr(pool=0), None))
        return _late_rate(routed) / _late_rate(alone)

    def of_draw(draw: int) -> dict[str, float]:
        figures = parameters(draw)
        return {"gain": gain(figures, draw, foreign=True), "control": gain(figures, draw, foreign=False)}

    spreads = collected(seeds, "handing out anew", progress, of_draw)
    return Row(
        seed, "throughput by re-dispatch alone", "rises", "> 1.05", spreads["gain"], spread([1.0]), spreads["control"],
        spreads["gain"].median > 1.05 and abs(spreads["control"].median - 1) <= 0.05, "x",
        "control: all machines alike",
    )  # fmt: skip


def _state_rows(seed: int, seeds: Sequence[int]) -> list[Row]:
    """Bytes, accesses and time when an instance is added; starting it takes the same for all, so it is left out."""
    sizes = {"WordCount's state": None, "1 GB": 1.0, "10 GB": 10.0}
    minimal, ranged, controls = [], [], []
    paper: dict[str, list[float]] = {name: [] for name in sizes}
    breaks: dict[str, list[float]] = {name: [] for name in sizes}
    equal = True
    for draw in seeds:
        figures = parameters(draw)
        words = float(figures.value("word_count", "words")) * float(figures.value("word_count", "state_bytes_per_word"))
        for name, size in sizes.items():
            own = costs(figures, words / 1e9 if size is None else size, draw)
            grouped, single = own["modulo, grouped"], own["modulo, a file a bucket"]
            equal &= abs(grouped.bytes / single.bytes - 1) < 1e-9
            paper[name].append(grouped.seconds / single.seconds)
            breaks[name].append(own["sticky, grouped"].seconds / own["stop, copy all, restart"].seconds)
        minimal.append(own["sticky, grouped"].over_minimal)
        ranged.append(own["ranges, a file a bucket"].over_minimal)
        controls.append(replaced(figures, 1.0, draw))
    rows = [
        Row(
            seed, "bytes moved over the least", "75% of all (3 -> 4)", "<= 1.1 x", spread(minimal), spread(ranged),
            met=spread(minimal).median <= 1.1, unit="x", note="baseline: contiguous ranges, as Flink has them",
        )
    ]  # fmt: skip
    for name in sizes:
        own_time, own_break = spread(paper[name]), spread(breaks[name])
        rows.append(
            Row(
                seed, f"restore, {name}, grouped over a file a bucket", "less time, equal bytes",
                "<= 0.5 x", own_time, spread([1.0]), met=equal and own_time.median <= 0.5, unit="x",
                note="accesses are saved, bytes are not: the larger the state, the less it gains",
            )
        )  # fmt: skip
        control = spread(controls)
        rows.append(
            Row(
                seed, f"break, {name}, over stop, copy all, restart", "half of its rivals", "<= 0.5 x", own_break,
                spread([1.0]), control, own_break.median <= 0.5 and control.median >= 0.95, "x",
                "control: every instance is replaced, so that all state must move. The one new instance fetches all "
                "that moves, a quarter, while the rival's four fetch a quarter each side by side: nothing is gained. "
                "It stays missed until moves without a stop are measured on the engine",
            )
        )  # fmt: skip
    return rows


def _first(completed: Run, names: Sequence[str]) -> str | None:
    plans = [plan for plan in rescaled(completed) if plan.tasks]
    return names[plans[0].tasks[0].task] if plans else None


def _late_rate(completed: Run) -> float:
    return float(completed.series.task("processed", "split")[-60:].mean())


def _lags(draw: int) -> tuple[Chart, dict[str, LoggedRun]]:
    """Return what waits while the narrow task is scaled, and the log of ours."""
    figures, case = parameters(draw), WordCountCase("count")
    runs = {
        name: ran(figures, case, policy, draw)[1]
        for name, policy in (("Flink-ER", OURS), ("hottest + 1", Hottest()), ("nobody", None))
    }
    lines = [
        ChartLine(name, run.series.times_s, run.series.task("lag", "lines").tolist()) for name, run in runs.items()
    ]
    chart = Chart("flink_er_lag", "Rows waiting in the log", "s", "rows", tuple(lines))
    return chart, {"flink_er_lag": LoggedRun(runs["Flink-ER"], {"policy": ("flink-er", OURS)})}


def _break_chart(seeds: Sequence[int]) -> Chart:
    figures = parameters(None)
    sizes = [float(size) for size in figures.value("break", "gigabytes")]
    every = [costs(figures, size, seeds[0]) for size in sizes]
    lines = tuple(
        ChartLine(name, [float(place) for place in range(len(sizes))], [own[name].seconds for own in every])
        for name in every[0]
    )
    ticks = tuple(f"{size:g} GB" for size in sizes)
    return Chart("flink_er_restore", "Fetching state, 3 to 4 instances", "", "s", lines, True, ticks, log_y=True)
