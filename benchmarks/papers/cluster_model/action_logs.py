"""What policies saw and decided on a simulated cluster, as the action log that the head writes too (Sage, 4.3).

``penstock decide`` reads it again, with nothing left of the cluster.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from penstock.benchmarks.papers.cluster_model.loop import Run, Scheduled
from penstock.engine.policies import parameters_of
from penstock.scheduler.action_log import ActionLog


def write_log(path: Path, policies: Sequence[Scheduled], done: Run) -> None:
    """Write a run's snapshots, decisions and outcomes; each policy's name is that of the registry.

    Raises:
        LogError: the file is there, and no log.
    """
    with ActionLog(path) as log:
        for item in policies:
            log.policy(item.name, parameters_of(item.policy))
        for record in done.records:
            log.snapshot(record.snapshot)
            log.decision(record.snapshot, record.policy, record.decision)
            log.result(record.snapshot, record.policy, record.outcome.result, asdict(record.outcome))
