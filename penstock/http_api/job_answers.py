"""Answers made of a job's status, plan and metrics; pure."""

from typing import cast

from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.status import JobStatus
from penstock.engine.plan.resources import task_resources
from penstock.http_api.answers import (
    GraphAnswer,
    GraphEdge,
    GraphOperator,
    GraphTask,
    InstanceAnswer,
    InstancesAnswer,
    State,
    StatusAnswer,
)
from penstock.http_api.broadcast import Broadcast
from penstock.model.execution_graph import ExecutionGraph, instance_name
from penstock.model.installation import installed_version


def status_answer(status: JobStatus, metrics: JobMetrics, broadcast: Broadcast, *, takes_actions: bool) -> StatusAnswer:
    """Return a job in short."""
    checkpoints = metrics.checkpoints
    return StatusAnswer(
        job=status.name,
        version=installed_version("penstock") or "unknown",
        state=cast("State", status.state),
        attempt=status.attempt,
        error=status.error,
        restored_epoch=status.restored_epoch,
        last_epoch=None if checkpoints is None else checkpoints.last_epoch,
        restarts=0 if checkpoints is None else checkpoints.restarts,
        elapsed_ns=metrics.elapsed_ns,
        source_rows=metrics.source_rows,
        state_bytes=metrics.state_bytes,
        late_rows=metrics.ledger.late,
        dead_letters=metrics.ledger.dead_lettered,
        shed_rows=metrics.ledger.shed,
        shedding=metrics.shedding,
        scaling=metrics.scaling,
        takes_checkpoints=status.takes_checkpoints,
        takes_actions=takes_actions,
        watchers=broadcast.watchers,
        dropped_watchers=broadcast.dropped,
    )


def graph_answer(job: str, graph: ExecutionGraph) -> GraphAnswer:
    """Return a job's plan."""
    nodes = graph.graph.operators
    return GraphAnswer(
        job,
        tuple(GraphOperator(node.name, node.kind, node.where) for node in nodes.values()),
        tuple(
            GraphTask(
                graph.name(task),
                tuple(nodes[key].name for key in task.operators),
                task.parallelism,
                dict(task_resources(graph, task)),
            )
            for task in graph.tasks
        ),
        tuple(
            GraphEdge(
                nodes[edge.producer].name,
                edge.output,
                nodes[edge.consumer].name,
                edge.port,
                edge.exchange,
                edge.chained,
            )
            for edge in graph.edges
        ),
    )


def instances_answer(metrics: JobMetrics) -> InstancesAnswer:
    """Return all instances of a job, where they are, and what moves."""
    return InstancesAnswer(
        metrics.name,
        tuple(
            InstanceAnswer(
                instance_name(item.task, item.instance),
                item.task,
                item.instance,
                item.task_manager,
                item.time,
                item.watermark_us,
                item.waiting_bytes,
                item.key_groups,
            )
            for item in metrics.instances
        ),
        metrics.change,
    )
