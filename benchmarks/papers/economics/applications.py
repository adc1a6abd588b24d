"""Taxi Drives and K-Nearest Neighbors as parts of a simulated cluster, and what load they are (section 7, Figure 2)."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.benchmarks.papers.cluster_model.curves import Curve
from penstock.benchmarks.papers.cluster_model.parameters import Parameters, evaluation_parameters
from penstock.benchmarks.papers.cluster_model.spec import (
    ActionSpec,
    ApplicationSpec,
    ClusterSpec,
    EdgeSpec,
    MachineSpec,
    QuerySpec,
    ReportSpec,
    SourceSpec,
    TaskSpec,
)

SOURCES, SINKS = ("TDSrc1", "TDSrc2"), ("TDSnk1", "TDSnk2")
KNN = "KNNSrc1"


@dataclass(frozen=True, slots=True)
class ApplicationPart:
    """An application with its tasks, logs, edges and queries."""

    application: ApplicationSpec
    tasks: Sequence[TaskSpec]
    sources: Sequence[SourceSpec]
    queries: Sequence[QuerySpec]
    edges: Sequence[EdgeSpec] = ()


@dataclass(frozen=True, slots=True)
class Taxi:
    """Configuration of Taxi Drives: instances, minimums and priorities of both sinks, and the cost of their rows."""

    instances: tuple[int, int]
    minimums: tuple[float, float]
    cpu_s: tuple[float, float]
    source_cpu_s: float
    priorities: tuple[float, float] = (1.0, 1.0)

    def carried(self, cores: float, accuracies: tuple[float, float], parts: tuple[float, float]) -> float:
        """Return the rate of each topic, rows/s, at which sinks of these accuracies use so many cores.

        parts: of the instances of each sink, which share of them is counted. Of the sources all is.
        """
        sinks = sum(a * c * part for a, c, part in zip(accuracies, self.cpu_s, parts, strict=True))
        return cores / (2 * (sinks + max(accuracies) * self.source_cpu_s))

    @property
    def full(self) -> float:
        """The rate of each topic at which one machine runs all of it at full accuracy."""
        return self.carried(1.0, (1.0, 1.0), (1.0, 1.0))

    def too_much(self, moved: int) -> float:
        """Return the rate at which minimums do not fit any more, so many instances of the first sink being away."""
        count = self.instances[0]
        return self.carried(1.0, self.minimums, ((count - moved) / count, 1.0))


def parameters(seed: int | None) -> Parameters:
    """Return the figures, those that no paper gives drawn anew (None: as they stand)."""
    return evaluation_parameters(__package__, seed)


def figure(figures: Parameters, name: str) -> float:
    """Return a parameter that is a number, by its dotted name."""
    section, _, field = name.partition(".")
    return float(figures.value(section, field))


def taxi(
    figures: Parameters, priorities: tuple[float, float] = (1.0, 1.0), minimums: tuple[float, float] | None = None
) -> Taxi:
    """Return Taxi Drives as the parameters have it."""
    one, two, minimum_1, minimum_2, ratio, cpu_s, source_cpu_s = (
        figure(figures, f"taxi.{name}")
        for name in (
            "sink_1_instances", "sink_2_instances", "minimum_1", "minimum_2", "sink_1_over_2", "sink_2_cpu_s",
            "source_cpu_s",
        )
    )  # fmt: skip
    own = (minimum_1, minimum_2) if minimums is None else minimums
    return Taxi((int(one), int(two)), own, (ratio * cpu_s, cpu_s), source_cpu_s, priorities)


def taxi_part(figures: Parameters, of: Taxi, rate: Curve, machines: tuple[str, ...]) -> ApplicationPart:
    """Return Taxi Drives with this rate in each of its topics; its instances start on these machines in turn.

    Both sinks read both sources.
    """

    def task(name: str, cpu_s: float, parallelism: int, first: int) -> TaskSpec:
        turn = tuple(machines[(first + number) % len(machines)] for number in range(parallelism))
        return figures.make(
            TaskSpec, "task", name, name=name, application="TD", cpu_s=cpu_s, parallelism=parallelism, machines=turn
        )

    one, two = of.instances
    tasks = [
        task(SOURCES[0], of.source_cpu_s, 1, 0),
        task(SOURCES[1], of.source_cpu_s, 1, 1),
        task(SINKS[0], of.cpu_s[0], one, 0),
        task(SINKS[1], of.cpu_s[1], two, one),
    ]
    return ApplicationPart(
        figures.make(ApplicationSpec, "application", name="TD"),
        tasks,
        [
            figures.make(SourceSpec, "source", task=name, rate=rate, partition_shares=_shares(figures, "taxi", 1))
            for name in SOURCES
        ],
        [
            QuerySpec(name=name, task=name, priority=priority, minimum_accuracy=minimum)
            for name, priority, minimum in zip(SINKS, of.priorities, of.minimums, strict=True)
        ],
        [figures.make(EdgeSpec, "edge", producer=source, consumer=sink) for source in SOURCES for sink in SINKS],
    )


def knn_part(figures: Parameters, rate: Curve, machines: tuple[str, ...], starts_s: float = 0.0) -> ApplicationPart:
    """Return K-Nearest Neighbors, a single task that reads a topic: an instance on each of these machines."""
    task = figures.make(
        TaskSpec, "task", KNN, name=KNN, application="KNN", cpu_s=figure(figures, "knn.cpu_s"),
        parallelism=len(machines), machines=machines,
    )  # fmt: skip
    return ApplicationPart(
        figures.make(ApplicationSpec, "application", name="KNN", starts_s=starts_s),
        [task],
        [figures.make(SourceSpec, "source", task=KNN, rate=rate, partition_shares=_shares(figures, "knn", 2))],
        [QuerySpec(name=KNN, task=KNN, priority=0.0, minimum_accuracy=figure(figures, "knn.minimum"))],
    )


def knn_full(figures: Parameters, instances: int) -> float:
    """Return the rate of the topic at which its fullest instance fills a core."""
    shares = _shares(figures, "knn", 2)
    fullest = max(sum(shares[number::instances]) for number in range(instances))
    return 1 / (figure(figures, "knn.cpu_s") * fullest)


def _shares(figures: Parameters, application: str, readers: int) -> tuple[float, ...]:
    """Return parts of a topic's partitions, in turn larger and smaller, which add up to 1; as many for each reader."""
    count, skew = readers * int(figure(figures, f"{application}.partitions")), figure(figures, f"{application}.skew")
    weights = [1 + (skew / 2 if number % 2 == 0 else -skew / 2) for number in range(count)]
    return tuple(part / sum(weights) for part in weights)


def cluster_spec(figures: Parameters, joins_s: Sequence[float], *parts: ApplicationPart) -> ClusterSpec:
    """Return a cluster of machines tm1, tm2 ..., each of which joins at its time, with these applications."""
    return ClusterSpec(
        machines=[
            figures.make(MachineSpec, "machine", name=f"tm{number}", joins_s=at_s)
            for number, at_s in enumerate(joins_s, 1)
        ],
        applications=[part.application for part in parts],
        tasks=[task for part in parts for task in part.tasks],
        sources=[source for part in parts for source in part.sources],
        edges=[edge for part in parts for edge in part.edges],
        queries=[query for part in parts for query in part.queries],
        actions=figures.make(ActionSpec, "actions"),
        reports=figures.make(ReportSpec, "reports"),
    )
