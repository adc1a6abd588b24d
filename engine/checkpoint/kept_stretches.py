"""What instances have read, with the keep rates that held, until a checkpoint publishes it."""

from collections.abc import Collection

from penstock.engine.dataflow.checkpoint_port import CutTaken
from penstock.shedding.kept_log import Stretch, merged


class KeptStretches:
    """Stretches by instance, each with the epoch whose barrier they are before."""

    def __init__(self) -> None:
        """Begin with none."""
        self._pending: dict[str, list[tuple[int, tuple[Stretch, ...]]]] = {}

    def begin(self, instances: Collection[str]) -> None:
        """Instances begin anew, from the last checkpoint: what they have read since counts no more."""
        for name in instances:
            self._pending.pop(name, None)

    def add(self, cut: CutTaken) -> None:
        """Keep what an instance has read before a barrier, or before its end."""
        if cut.stretches:
            self._pending.setdefault(cut.instance, []).append((cut.epoch, tuple(cut.stretches)))

    def due(self, epoch: int) -> list[Stretch]:
        """Return what was read before the barrier of an epoch and is not published."""
        return merged(
            stretch
            for cuts in self._pending.values()
            for before, stretches in cuts
            if before <= epoch
            for stretch in stretches
        )

    def published(self, epoch: int) -> None:
        """Forget what was read before the barrier of an epoch."""
        left = {name: [cut for cut in cuts if cut[0] > epoch] for name, cuts in self._pending.items()}
        self._pending = {name: cuts for name, cuts in left.items() if cuts}
