"""Snapshots and decisions of policies on a simulated cluster, as an action log (Sage, 4.3).

``penstock decide`` reads it again, with nothing left of the cluster.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks.papers.cluster_model.loop import EVALUATED, Run
from penstock.engine.control.policies import parameters_of
from penstock.model.policy import Policy
from penstock.scheduler.action_log import ActionLog
from penstock.scheduler.guarded import guarded


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A run to be logged; ``registered``: by the names they have in it, its policies and their names in the registry.

    What others did in the run is left out.
    """

    run: Run
    registered: Mapping[str, tuple[str, Policy[Any]]]


def write_log(path: Path, logged: LoggedRun) -> None:
    """Write a run's snapshots, decisions and outcomes.

    Raises:
        LogError: the file is there, and no log.
    """
    with ActionLog(path) as log:
        for name, policy in logged.registered.values():
            log.policy(name, parameters_of(guarded(policy, EVALUATED)))
        for record in logged.run.records:
            if record.policy in logged.registered:
                name, _ = logged.registered[record.policy]
                log.snapshot(record.snapshot)
                log.decision(record.snapshot, name, record.decision)
                log.result(record.snapshot, name, record.outcome.result, asdict(record.outcome))
