"""Jobs on Ray under attack: where their heads are, and their end when an experiment breaks off."""

from contextlib import suppress

from penstock.engine.plan.planner import in_caller
from penstock.model.errors import RetryableError, UserError
from penstock.model.job_graph import JobGraph, SourceSpec


def has_head_actor(graph: JobGraph) -> bool:
    """Return whether a job on Ray has a head actor, and not the command for its head.

    Sources that are bound to the process which builds the pipeline keep the head there; sinks are others under attack.
    """
    return not any(isinstance(node.spec, SourceSpec) and in_caller(node) for node in graph.operators.values())


def end_job(job: str, address: str | None) -> None:
    """End a job whose command is gone, if it is on a cluster that outlives the command; nothing happens otherwise."""
    from penstock.cluster.connection import connected_to_jobs
    from penstock.engine.executors.ray.cluster import has_cluster

    if not has_cluster(address):
        return
    from penstock.cluster.heads import find_head

    # It has ended by itself, or its cluster has.
    with suppress(UserError, RetryableError), connected_to_jobs(address):
        find_head(job).kill()
