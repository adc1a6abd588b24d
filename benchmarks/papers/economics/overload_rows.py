"""Rows of a peak, of Figure 8, and of two ways to share a core out."""

from collections.abc import Sequence

from penstock.benchmarks.papers.economics import overload
from penstock.benchmarks.papers.economics.applications import figure, parameters
from penstock.benchmarks.papers.economics.controllers import PAPER, PENSTOCK, PLAIN
from penstock.benchmarks.papers.economics.runs import FEW
from penstock.benchmarks.papers.economics.sharing import shared
from penstock.benchmarks.papers.evaluation import Progress, Row, collected


def peak_rows(seed: int, seeds: Sequence[int], progress: Progress) -> list[Row]:
    """Return the rows of a peak of twice what one machine carries (docs/design/papers/stream-economics.md 10)."""

    def of_draw(draw: int) -> dict[str, float]:
        figures = parameters(draw)
        of, period_s = overload.peak(figures, draw), figure(figures, "qod.period_s")
        ours, plain, nobody = (overload.scene(figures, policy, draw) for policy in (PENSTOCK, PLAIN, None))
        return {
            "worst": overload.worst_lag(of, ours, period_s),
            "nobody's worst": overload.worst_lag(of, nobody, period_s),
            "grows": overload.grows_s(of, ours),
            "nobody's grows": overload.grows_s(of, nobody),
            "slope": overload.slope(of, nobody),
            "ours over plain": overload.lag_over(ours, plain, of),
            "whole again": overload.whole_again_s(of, ours),
            "plain is whole again": overload.whole_again_s(of, plain),
        }

    def calm(draw: int) -> dict[str, float]:
        figures = parameters(draw)
        of, period_s = overload.peak(figures, draw), figure(figures, "qod.period_s")
        ours, plain = (overload.scene(figures, policy, draw, rises=False) for policy in (PENSTOCK, PLAIN))
        paper = overload.scene(figures, PAPER, draw)
        return {
            "worst": overload.worst_lag(of, ours, period_s),
            "grows": overload.grows_s(of, ours),
            "slope": overload.slope(of, ours),
            "ours over plain": overload.lag_over(ours, plain, of),
            "accuracy": overload.accuracy(of, ours),
            "sheds": float(ours.sheds(0.0, float("inf"))),
            "whole again": overload.whole_again_s(of, ours),
            "paper's worst": overload.worst_lag(of, paper, period_s),
            "paper's grows": overload.grows_s(of, paper),
        }

    peak = collected(seeds, "overload x2", progress, of_draw)
    still = collected(seeds[:FEW], "no overload", progress, calm)
    return [
        Row(
            seed, "overload x2: lag / (2 x overload x period)", "lag near 0; Flink's grows", "<= 1", peak["worst"],
            peak["nobody's worst"], still["worst"],
            peak["worst"].median <= 1 < peak["nobody's worst"].median and still["worst"].median <= 0.05, "x",
            "baseline: nobody sheds; control: no overload",
        ),
        Row(
            seed, "overload x2: lag grows for", "-", "<= 10 s (2 cycles)", peak["grows"], peak["nobody's grows"],
            still["grows"], peak["grows"].median <= 10 and still["grows"].median == 0, "s",
            "until it is never again larger by 0.1 s of input; baseline: nobody sheds, to the end of the peak",
        ),
        Row(
            seed, "overload x2, nobody sheds: slope of lag", "without bound", "R - C +-10%", peak["slope"], None,
            still["slope"], abs(peak["slope"].median - 1) <= 0.1 and abs(still["slope"].median) <= 0.05, "x (R - C)",
            "C from what rows cost; control: no overload",
        ),
        Row(
            seed, "no overload: least accuracy of a sink", "1", "1, nobody sheds", still["accuracy"], None,
            still["sheds"], still["accuracy"].median >= 0.995 and still["sheds"].p90 == 0,
            note="control: draws in which something is shed",
        ),
        Row(
            seed, "end of the peak: lag-aware over plain", "lag stays (7.3)", "<= 0.05 x", peak["ours over plain"],
            None, still["ours over plain"],
            peak["ours over plain"].median <= 0.05 and abs(still["ours over plain"].median - 1) <= 0.05, "x",
            "rows in the logs; control: no overload",
        ),
        Row(
            seed, "after the peak: all is kept again after", "-", "<= 10 s (2 cycles)", peak["whole again"],
            peak["plain is whole again"], still["whole again"], peak["whole again"].median <= 10, "s",
            "baseline: without the backlog in the target; control: no overload",
        ),
        Row(
            seed, "overload x2, the paper's: lag / (2 x overload x period)", "-", "<= 1", still["paper's worst"],
            peak["nobody's worst"], still["worst"], still["paper's worst"].median <= 1, "x", "baseline: nobody sheds",
        ),
        Row(
            seed, "overload x2, the paper's: lag grows for", "-", "-", still["paper's grows"], peak["nobody's grows"],
            unit="s", note="what the reaction left in the logs stays, and wanders",
        ),
    ]  # fmt: skip


def figure_8_rows(seed: int, seeds: Sequence[int], progress: Progress) -> list[Row]:
    """Return the rows of Figure 8, at the last step of the rate; the first one, which fits, is the control."""

    def of_draw(draw: int) -> dict[str, float]:
        values: dict[str, float] = {}
        for name, policy in (("ours", PENSTOCK), ("nobody", None)):
            _, points, _ = overload.figure_8(parameters(draw), policy, draw)
            for when, point in (("first", points[0]), ("last", points[-1])):
                values |= {
                    f"{name} {when} lag": point.lag_s,
                    f"{name} {when} read": point.read / (2 * point.rate),
                    f"{name} {when} latency": point.latency_ms,
                    f"{name} {when} log": point.log_wait_ms,
                }
        return values

    values = collected(seeds[:FEW], "Figure 8", progress, of_draw)
    return [
        Row(
            seed, "Figure 8: lag at the highest rate", "0; Flink's grows", "<= 0.5 s of input", values["ours last lag"],
            values["nobody last lag"], values["ours first lag"],
            values["ours last lag"].median <= 0.5 < values["nobody last lag"].median
            and values["ours first lag"].median <= 0.05,
            "s", "baseline: nobody sheds; control: the lowest rate",
        ),
        Row(
            seed, "Figure 8: rows read / rows injected there", "keeps up; Flink does not", ">= 0.98",
            values["ours last read"], values["nobody last read"], values["nobody first read"],
            values["ours last read"].median >= 0.98 and abs(values["nobody first read"].median - 1) <= 0.05,
            note="control: the lowest rate, nobody sheds",
        ),
        Row(
            seed, "Figure 8: latency there, without the log", "falls below Flink's", "-", values["ours last latency"],
            values["nobody last latency"], values["ours first latency"], unit="ms",
            note="simulated and not claimed: the paper's is of a real engine",
        ),
        Row(
            seed, "Figure 8: the wait in the log beside it", "left out", "-", values["ours last log"],
            values["nobody last log"], values["ours first log"], unit="ms",
        ),
    ]  # fmt: skip


def sharing_rows(seed: int, seeds: Sequence[int], progress: Progress) -> list[Row]:
    """Return how two sinks of equal priority and of unequal minimums share a core."""

    def of_draw(draw: int) -> dict[str, float]:
        figures = parameters(draw)
        paper, ours, calm = (
            shared(figures, policy, draw, is_over=is_over)
            for policy, is_over in ((PAPER, True), (PENSTOCK, True), (PENSTOCK, False))
        )
        return {
            "paper": paper.apart,
            "ours": ours.apart,
            "calm": calm.apart,
            "paper's extra": paper.extra_apart,
            "our extra": ours.extra_apart,
        }

    values = collected(seeds[:FEW], "two sinks on a core", progress, of_draw)
    return [
        Row(
            seed, "equal priorities, penstock: accuracies apart", "-", "<= 0.05", values["ours"], values["paper"],
            values["calm"], values["ours"].median <= 0.05 and values["calm"].median <= 0.05,
            note="minimums 0.4 and 0.6, one core; baseline: the paper's; control: all fits",
        ),
        Row(
            seed, "equal priorities, paper: CPU above minimums apart", "equal", "<= 0.05 cores",
            values["paper's extra"], values["our extra"], met=values["paper's extra"].median <= 0.05, unit="cores",
            note="baseline: penstock",
        ),
    ]  # fmt: skip
