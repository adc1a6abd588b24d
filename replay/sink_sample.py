"""The sample that one sink got: the rates of its own branches, at which its replay keeps, weights or counts rows.

Which branch leads to a sink follows from the plan. Called by the compiler for every source of a sink's replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from penstock.engine.plan.optimiser import optimise
from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, OperatorNode
from penstock.model.keep_rates import STEPS
from penstock.model.result_columns import DRAW
from penstock.replay.frames import ReplayError
from penstock.replay.kept_log import KeptLog
from penstock.replay.row_sampling import RATES, STEP
from penstock.replay.sample_columns import KEEP
from penstock.replay.spark_types import quoted_name


@dataclass(frozen=True, slots=True)
class SinkSample:
    """The rates of one sink of a job; ``estimates``: of the rows that it did not get none is left."""

    graph: JobGraph
    sink: str
    log: KeptLog
    estimates: bool

    def apply(self, source: OperatorNode, rows: DataFrame) -> DataFrame:
        """Return the rows of a source with `KEEP` in place of steps and rates; other rows as they are.

        With `DRAW` besides, if steps were drawn by strata.

        Raises:
            ReplayError: rows come to the sink by several branches.
        """
        if STEP not in rows.columns:
            return rows
        rates = ", ".join(f"{rate!r}D" for rate in sink_rates(self.graph, source.name, self.sink, self.log))
        rate = f"element_at(array({rates}), {quoted_name(RATES)} + 1)"
        stayed = f"{quoted_name(STEP)} < {rate} * {STEPS}"
        others = [quoted_name(name) for name in rows.columns if name not in (STEP, RATES)]
        if self.estimates:
            drew = [f"{quoted_name(STEP)} AS {quoted_name(DRAW)}"] if self.log.has_strata(source.name) else []
            return rows.where(stayed).selectExpr(*others, f"{rate} AS {quoted_name(KEEP)}", *drew)
        return rows.selectExpr(*others, f"CASE WHEN {stayed} THEN {rate} ELSE 0.0D END AS {quoted_name(KEEP)}")


def sink_rates(graph: JobGraph, source: str, sink: str, log: KeptLog) -> tuple[float, ...]:
    """Return which of a source's rows came to a sink, for each of the log's rates.

    Branches are edges of the plan, whose operators may be others than the user's: both are looked at.

    Raises:
        ReplayError: some rows come by a branch and others around it, or no operators have its name.
    """
    on_the_way = []
    plans = (graph, optimise(graph))
    for name in sorted(log.branches):
        passes = [_passes(plan, source, sink, name) for plan in plans]
        known = [item for item in passes if item is not None]
        if not known:
            raise ReplayError(
                f"the log {log.path} has rates of the branch {name!r}, which is no edge of the pipeline: is it of this "
                "one?"
            )
        if "some" in known:
            raise ReplayError(
                f"sink {sink!r} gets rows of source {source!r} by the branch {name!r} and around it, and which of them "
                "were kept for it cannot be told"
            )
        if "all" in known:
            on_the_way.append(name)
    return tuple(
        min([rates.keep, *(rates.branches[name] for name in on_the_way if name in rates.branches)])
        for rates in log.rates()
    )


def _passes(graph: JobGraph, source: str, sink: str, branch: str) -> str | None:
    """Return whether ``all``, ``some`` or ``no`` paths from a source to a sink have this edge; None: there is none."""
    ids = {node.name: node.id for node in graph.operators.values()}
    edges = {
        (edge.operator, node.id)
        for node in graph.operators.values()
        for edge in node.inputs
        if f"{graph[edge.operator].name}>{node.name}" == branch
    }
    if not edges:
        return None
    begin, end = ids.get(source), ids.get(sink)
    if (
        begin is None
        or end is None
        or not any(
            (producer == begin or _leads(graph, begin, producer, ()))
            and (consumer == end or _leads(graph, consumer, end, ()))
            for producer, consumer in edges
        )
    ):
        return "no"
    return "some" if _leads(graph, begin, end, tuple(edges)) else "all"


def _leads(
    graph: JobGraph, start: OperatorId, end: OperatorId, without: Sequence[tuple[OperatorId, OperatorId]]
) -> bool:
    """Return whether rows of one operator come to another one, without these edges."""
    reached = {start}
    for node in graph.operators.values():
        if any(edge.operator in reached and (edge.operator, node.id) not in without for edge in node.inputs):
            reached.add(node.id)
    return end in reached
