"""A pipeline over recorded rows: sources that were read once, sinks that stand for the user's, and what is left out.

Made for the simulated executor (docs/design/simulated-runs.md 3).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from penstock.engine.executors.simulation.recorded import record
from penstock.engine.executors.simulation.staged_sink import StagedSink
from penstock.engine.executors.simulation.timing_dependence import timing_dependent_sinks, without_sinks
from penstock.model.errors import PlanError
from penstock.model.job_graph import JobGraph, SinkSpec, SourceSpec

CUTS = 4
"""Into how many partitions a source is cut that can be cut anywhere."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A pipeline over recorded rows. ``left_out`` are sinks that are not compared, and why; ``notes`` what to know."""

    graph: JobGraph
    rows: int
    left_out: Mapping[str, str]
    notes: tuple[str, ...] = ()


def _at_once(seconds: float) -> None:
    """Do not wait: what a source has not got now is not recorded."""


def record_pipeline(graph: JobGraph, rows: int, sleep: Callable[[float], None] = _at_once) -> Recording:
    """Read every source once, up to so many rows each; watermark delays grow so that no row is late.

    ``sleep`` waits seconds for a source that has nothing now.

    Raises:
        PlanError: no sink is left whose rows are promised.
    """
    left_out = timing_dependent_sinks(graph)
    graph = without_sinks(graph, left_out)
    if not graph.operators:
        raise nothing_left(left_out)
    operators = dict(graph.operators)
    notes: list[str] = []
    total = 0
    for key, node in graph.operators.items():
        if isinstance(node.spec, SourceSpec):
            recorded, whole = record(node.spec.source, rows, CUTS, sleep)
            total += recorded.rows
            if not whole:
                notes.append(f"of source {node.name!r} the first {recorded.rows:,} rows were read")
            spec = replace(node.spec, source=recorded)
            time = node.outputs["main"].time
            disorder_us = 0 if time is None else recorded.disorder_us(time)
            if disorder_us > spec.watermark_delay_us:
                notes.append(
                    f"source {node.name!r} has rows {disorder_us:,} us behind others; its watermark delay is raised "
                    f"from {spec.watermark_delay_us:,} us, so that none is late"
                )
                spec = replace(spec, watermark_delay_us=disorder_us)
            operators[key] = replace(node, spec=spec)
        elif isinstance(node.spec, SinkSpec):
            operators[key] = replace(node, spec=replace(node.spec, sink=StagedSink(f"sink-{key}")))
    return Recording(JobGraph(operators), total, left_out, tuple(notes))


def sinks_in_caller(graph: JobGraph) -> JobGraph:
    """Return a recorded pipeline whose sinks stay in the process that starts the job."""
    operators = dict(graph.operators)
    for key, node in graph.operators.items():
        if isinstance(node.spec, SinkSpec):
            sink = StagedSink(f"sink-{key}", in_caller=True)
            operators[key] = replace(node, spec=replace(node.spec, sink=sink))
    return JobGraph(operators)


def nothing_left(left_out: Mapping[str, str]) -> PlanError:
    """Return the error of a pipeline all of whose sinks are left out."""
    reasons = [f"sink {name!r} is left out, as {why}" for name, why in left_out.items()]
    return PlanError(f"there is nothing to compare: {'; '.join(reasons)}")
