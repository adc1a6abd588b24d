"""Pictures of streams: a plan drawn in notebooks, one line at the prompt, a tree on request."""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.dsl.job import Job
from penstock.model.config import check_count
from penstock.model.connectors import Sink, Writer
from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import BugError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import OperatorId
from penstock.model.job_graph import Input, JobGraph, OperatorNode, SinkSpec

if TYPE_CHECKING:
    from penstock.dsl.preview import Preview

_EYE = OperatorId("$picture")


class Picture:
    """Methods of a `Stream` that show the plan leading to it. Showing never starts work."""

    job: Job
    _operator: OperatorId
    _output: str

    def explain(self) -> str:
        """Return the physical plan of everything that leads to this stream, as a tree."""
        from penstock.plan_views.text import explain

        return explain(plan_up_to(self.job, self._operator, self._output))

    def preview(self, rows: int = 20, *, timeout: Duration = "10s") -> "Preview":
        """Run what leads to this stream and return its first rows, at most ``rows``; sinks stay untouched.

        It ends when the rows are there, the input has ended, or ``timeout`` is over. Notebooks show it as a table.

        Raises:
            OptionError: ``rows`` is below 1.
        """
        from penstock.dsl.preview import preview

        check_count("rows", rows)
        return preview(self.job, self._operator, self._output, rows, to_microseconds(timeout, "timeout") / 1e6)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the plan as SVG, as Mermaid where SVG is not shown, and as text; never raises."""
        try:
            from penstock.plan_views.svg import svg
            from penstock.plan_views.text import explain, mermaid

            plan = plan_up_to(self.job, self._operator, self._output)
            return {
                "image/svg+xml": svg(plan),
                "text/vnd.mermaid": mermaid(plan),
                "text/plain": explain(plan),
            }
        except Exception as error:
            return {"text/plain": f"{self!r}\nThe plan cannot be drawn: {error}"}

    def __repr__(self) -> str:
        """Return the operator's name and the stream's columns; never raises."""
        node = self.job.graph.operators.get(self._operator)
        if node is None or self._output not in node.outputs:
            return f"<Stream {self._operator}>"
        schema = node.outputs[self._output]
        output = "" if self._output == "main" else f".{self._output}"
        columns = ", ".join(f"{item.name} {item.type}" for item in schema.fields)
        return f"<Stream {node.name}{output}: {columns}{' (updating)' if schema.changelog else ''}>"


def plan_up_to(job: Job, operator: OperatorId, output: str) -> ExecutionGraph:
    """Plan what a stream needs, as if something read all its columns, in one instance each.

    Raises:
        PlanError: two operators share a name.
    """
    from penstock.engine.plan.planner import plan

    planned = plan(graph_up_to(job, operator, output, _PreviewSink()), 1)
    operators = {key: node for key, node in planned.graph.operators.items() if key != _EYE}
    tasks = (replace(task, operators=tuple(key for key in task.operators if key != _EYE)) for task in planned.tasks)
    edges = tuple(edge for edge in planned.edges if edge.consumer != _EYE)
    return ExecutionGraph(JobGraph(operators), tuple(task for task in tasks if task.operators), edges)


def graph_up_to(job: Job, operator: OperatorId, output: str, sink: Sink) -> JobGraph:
    """Return the job's graph with one sink in place of its own: on this output, for all its columns."""
    graph = JobGraph({key: node for key, node in job.graph.operators.items() if not isinstance(node.spec, SinkSpec)})
    mode = "changelog" if graph[operator].outputs[output].changelog else "append"
    graph.add(OperatorNode(_EYE, str(_EYE), SinkSpec(sink, mode), (Input(operator, output),), {}))
    return graph


class _PreviewSink(Sink):
    """Stands for whoever looks at a stream; it is taken out of the plan again."""

    in_caller = True

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        raise BugError("the plan of a picture was run")
