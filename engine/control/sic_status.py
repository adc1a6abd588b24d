"""What is told of a cycle in which SIC alone decides what is dropped. Called by `job_control`."""

from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.sic_coordinator import SicCoordinator
from penstock.model.shedding_status import QueryAccuracy, SheddingStatus
from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.keeping_up import falling_behind

AT_MINIMUM = 0.02
"""So close to its minimum a query loses no more: what is admitted of it comes in whole records of some partitions."""


def status_by_sic(shedding: LoadShedding, sic: SicCoordinator, seen: ClusterSnapshot) -> SheddingStatus:
    """Return what is to be told of a cycle in which SIC alone decides."""
    scope, behind = shedding.scope, falling_behind(seen)
    kept = dict(zip(sic.queries, sic.accuracy().tolist(), strict=True))
    lacking = {
        query
        for source, queries in scope.shedders.sources.items()
        if scope.source_tasks[source] in behind
        and all(scope.minimum[query] > 0.0 and kept[query] <= scope.minimum[query] + AT_MINIMUM for query in queries)
        for query in queries
    }
    infeasible = ""
    if lacking:
        names = ", ".join(map(repr, sorted(lacking)[:3]))
        infeasible = f"minimum accuracies cannot be met (of {names} no more is kept, and more comes than is read)"
    return SheddingStatus(
        shedding.shed,
        shedding.mode,
        "all queries are to stand equally by SIC",
        tuple(
            QueryAccuracy(name, scope.minimum[name], scope.priority[name], kept[name], kept[name])
            for name in sic.queries
        ),
        infeasible=infeasible,
    )
