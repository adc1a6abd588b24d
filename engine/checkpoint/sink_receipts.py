"""Receipts of sink writers that no checkpoint has committed yet."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import CutTaken


class SinkReceipts:
    """Receipts by the sink's name, each with the epoch that it was prepared for."""

    def __init__(self) -> None:
        """Begin without sinks."""
        self._prepared: dict[str, list[tuple[int, Any]]] = {}

    def begin(self, sinks: Collection[str], start: AttemptStart, committed_epoch: int) -> None:
        """Sinks begin anew: what they had prepared is taken back, but for what a checkpoint holds.

        What was committed up to ``committed_epoch`` is not committed again.
        """
        left = start.restored if start.epoch > committed_epoch else None
        for name in sinks:
            self._prepared[name] = [] if left is None else [(left.epoch, receipt) for receipt in left.receipts(name)]

    def add(self, cut: CutTaken) -> None:
        """Keep what an instance has prepared."""
        for name, receipt in cut.receipts.items():
            self._prepared[name].append((cut.epoch, receipt))

    def due(self, epoch: int) -> Mapping[str, Sequence[Any]]:
        """Return what every sink has prepared up to an epoch.

        An instance that passed the barrier and ended since then has prepared for the next epoch, too.
        """
        return {
            name: [receipt for prepared, receipt in receipts if prepared <= epoch]
            for name, receipts in self._prepared.items()
        }

    def committed(self, epoch: int) -> None:
        """Forget what was prepared up to an epoch."""
        for name, receipts in self._prepared.items():
            self._prepared[name] = [item for item in receipts if item[0] > epoch]

    def pending(self) -> Mapping[str, Sequence[tuple[int, Any]]]:
        """Return all that is kept, each with its epoch."""
        return {name: tuple(receipts) for name, receipts in self._prepared.items()}
