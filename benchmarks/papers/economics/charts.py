"""The charts of Figures 3 to 5 and 8, and the logs of Figure 3, with the parameters as they stand. Called by `run`."""

from penstock.benchmarks.papers.cluster_model.action_logs import LoggedRun
from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.economics import overload, scenario_1, scenario_2, scenario_3
from penstock.benchmarks.papers.economics.applications import KNN, SINKS, figure, parameters, taxi
from penstock.benchmarks.papers.economics.controllers import BY_MAXIMA, PAPER, PENSTOCK
from penstock.benchmarks.papers.economics.runs import FinishedRun
from penstock.benchmarks.papers.economics.tracking import rates_of
from penstock.benchmarks.papers.evaluation import Chart, ChartLine


def charts(seed: int) -> tuple[tuple[Chart, ...], dict[str, LoggedRun]]:
    """Return all charts, and the logs of scenario 1 under both controllers."""
    figures = parameters(None)
    first, second = scenario_1.scene(figures, PAPER, seed), scenario_2.scene(figures, PAPER, seed)
    ours = scenario_1.scene(figures, PENSTOCK, seed)
    minimums = dict(zip(SINKS, taxi(figures).minimums, strict=True))
    knn = {KNN: figure(figures, "knn.minimum")}
    logs = {
        "economics_figure_3": LoggedRun(ours.done, {"qod": ("qod", PENSTOCK)}),
        "economics_figure_3_paper": LoggedRun(first.done, {"qod": ("qod-paper", PAPER)}),
    }
    result = (
        _accuracy("economics_figure_3", "Scenario 1: accuracy of the sinks", first, minimums),
        _cpu("economics_figure_3_cpu", "Scenario 1: CPU of the task managers", first),
        _accuracy("economics_figure_4", "Scenario 2: accuracy of the sinks", second, minimums | knn),
        _cpu("economics_figure_4_cpu", "Scenario 2: CPU of the task managers", second),
        *_figure_5(figures, seed, knn),
        *_figure_8(figures, seed),
    )
    return result, logs


def _accuracy(name: str, title: str, finished: FinishedRun, minimums: dict[str, float]) -> Chart:
    """Return what part of the rows took part in each sink, and the least that it may be."""
    times = finished.times_s.tolist()
    lines = [
        ChartLine(sink, times, finished.done.series.accuracy(finished.cluster, sink).tolist()) for sink in minimums
    ]
    least = [ChartLine(f"minAc({sink})", [times[0], times[-1]], [value, value]) for sink, value in minimums.items()]
    return Chart(name, title, "s", "accuracy", (*lines, *least))


def _cpu(name: str, title: str, finished: FinishedRun) -> Chart:
    times = finished.times_s
    every_s = [times[0], *(times[1:] - times[:-1]).tolist()]
    used = finished.done.series.table("machine_cpu_s")
    lines = [
        ChartLine(machine.name, times.tolist(), [100 * s / dt for s, dt in zip(used[:, number], every_s, strict=True)])
        for number, machine in enumerate(finished.cluster.spec.machines)
    ]
    return Chart(name, title, "s", "% of a core", tuple(lines))


def _figure_5(figures: Parameters, seed: int, minimums: dict[str, float]) -> tuple[Chart, ...]:
    finished = scenario_3.scene(figures, BY_MAXIMA, seed)
    rates, times = rates_of(finished), finished.times_s.tolist()
    cycles = rates.times_s.tolist()
    aware = scenario_3.scene(figures, PENSTOCK, seed)
    return (
        _accuracy("economics_figure_5", "Scenario 3: accuracy of KNN", finished, minimums),
        Chart(
            "economics_figure_5_rate", "Scenario 3: rate of the topic", "s", "rows/s",
            (
                ChartLine("injected", cycles, rates.true.tolist()),
                ChartLine("by lag maxima", cycles, rates.estimated.tolist()),
            ),
        ),
        Chart(
            "economics_figure_5_lag", "Scenario 3: rows that wait in the log", "s", "rows",
            (
                ChartLine("paper, by lag maxima", times, finished.lag().tolist()),
                ChartLine("lag-aware, by end offsets", aware.times_s.tolist(), aware.lag().tolist()),
            ),
        ),
    )  # fmt: skip


def _figure_8(figures: Parameters, seed: int) -> tuple[Chart, ...]:
    runs = {name: overload.figure_8(figures, policy, seed) for name, policy in (("shed", PENSTOCK), ("unshed", None))}

    def chart(name: str, title: str, label: str, values: dict[str, list[float]]) -> Chart:
        lines = [
            ChartLine(run, [point.rate / of.full for point in points], values[run])
            for run, (_, points, of) in runs.items()
        ]
        return Chart(f"economics_figure_8{name}", title, "rate / what a machine carries", label, tuple(lines))

    lags = {run: [point.lag_s for point in points] for run, (_, points, _) in runs.items()}
    read = {run: [point.read for point in points] for run, (_, points, _) in runs.items()}
    return (
        chart("", "What waits in the logs as the rate rises", "s of input", lags),
        chart("_throughput", "What is read of the logs as the rate rises", "rows/s", read),
    )
