"""The epoch of a checkpoint that is neither committed nor given up, and what instances have contributed to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.engine.checkpoint.events import InstanceEnded


@dataclass
class EpochInFlight:
    """One epoch, begun at ``started_ns``.

    ``requested``: it serves a request, of that savepoint. ``stops``: the job shall stop after it. ``complete``: every
    instance contributes what it held at its end, so nothing is left to do after it.
    """

    epoch: int
    started_ns: int
    requested: bool
    savepoint: str | None
    stops: bool
    complete: bool = False
    snapshots: dict[str, object] = field(default_factory=dict)

    def parts(self, instances: int, ended: Mapping[str, InstanceEnded]) -> dict[str, object] | None:
        """Return what each of so many instances contributes, None as long as one is missing.

        An instance that passed this barrier before it ended contributes what it held at the barrier.
        """
        if len(self.snapshots) + len(ended) < instances:
            return None
        before = {name: end.what for name, end in ended.items() if end.delivered < self.epoch}
        parts = self.snapshots | before
        return parts if len(parts) == instances else None
