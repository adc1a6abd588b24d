"""Two sinks of equal priority on one core: equal CPU above the minimums, or equal accuracy."""

from dataclasses import dataclass, replace

from penstock.benchmarks.papers.cluster_model.curves import Constant
from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.economics.applications import SINKS, cluster_spec, figure, taxi, taxi_part
from penstock.benchmarks.papers.economics.runs import WARM_S, ran
from penstock.shedding.qod import QualityOfData

_END_S = WARM_S + 100.0
_SETTLES_S = 40.0


@dataclass(frozen=True, slots=True)
class SharedCore:
    """Accuracies of both sinks, and the CPU that each got above its minimum, parts of a core."""

    accuracy: tuple[float, float]
    extra: tuple[float, float]

    @property
    def apart(self) -> float:
        """Difference of their accuracies."""
        return abs(self.accuracy[0] - self.accuracy[1])

    @property
    def extra_apart(self) -> float:
        """Difference of their CPU above the minimums."""
        return abs(self.extra[0] - self.extra[1])


def shared(figures: Parameters, policy: QualityOfData, seed: int, *, is_over: bool = True) -> SharedCore:
    """Run both sinks, an instance each, at a load that no minimum binds at, or at one that fits.

    extra(t) = cpu(t) - minAc(t) x cpu(t) / ac(t)
    """
    of = replace(taxi(figures), instances=(1, 1))
    over = 1 + figure(figures, "sharing.over_share") if is_over else figure(figures, "overload.low_load")
    spec = cluster_spec(figures, (0.0,), taxi_part(figures, of, Constant(of.full * over), ("tm1",)))
    finished = ran(spec, policy, _END_S, seed)
    chosen = finished.within(WARM_S + _SETTLES_S, _END_S)
    took_s = float(finished.times_s[chosen][-1] - finished.times_s[chosen][0]) * chosen.sum() / (chosen.sum() - 1)
    accuracies, extras = [], []
    for sink, minimum in zip(SINKS, of.minimums, strict=True):
        accuracy = finished.accuracy(sink, WARM_S + _SETTLES_S, _END_S)
        cpu = float(finished.done.series.task("cpu_s", sink)[chosen].sum()) / took_s
        accuracies.append(accuracy)
        extras.append(cpu * (1 - minimum / accuracy))
    return SharedCore((accuracies[0], accuracies[1]), (extras[0], extras[1]))
