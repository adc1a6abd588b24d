"""Sources and sinks that are bound to the process which builds a pipeline; a head elsewhere cannot have them."""

from penstock.engine.connectors.local.iterable import IterableSource
from penstock.engine.connectors.local.memory import MemorySource
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.plan.planner import in_caller
from penstock.model.errors import PlanError
from penstock.model.function_sink import FunctionSink
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec, SourceSpec

_REMEDIES: tuple[tuple[type, str], ...] = (
    (IterableSource, "give a function that makes the iterable, which is called where it is read"),
    (MemorySource, "write the rows to a file that all machines see, and read that"),
    (MemorySink, "write them to files or a topic"),
    (FunctionSink, "write a Sink of your own, whose writers are opened where they run"),
)


def check_unbound(graph: JobGraph) -> None:
    """Refuse a pipeline of which something runs only in the process that has built it.

    Raises:
        PlanError: naming the operator, the user's line, and what to do.
    """
    for node in graph.operators.values():
        if in_caller(node) and not (isinstance(node.spec, SinkSpec) and node.spec.sink.follows_head):
            raise PlanError(
                f"{node.name!r} ({node.where}) is bound to the process that builds the pipeline, and the head of a job "
                f"on Ray is elsewhere and outlives it: {_remedy(node)}, or keep the head in this process "
                "(attached=True, --attached)"
            )


def _remedy(node: OperatorNode) -> str:
    match node.spec:
        case SourceSpec(source=connector) | SinkSpec(sink=connector):
            for kind, remedy in _REMEDIES:
                if isinstance(connector, kind):
                    return remedy
    return "leave in_caller False in the source or sink of yours, and let it open what it holds where it runs"
