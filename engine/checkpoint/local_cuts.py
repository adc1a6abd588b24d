"""The cuts of the instances that run in one process, until a checkpoint has them or is given up."""

from collections.abc import Callable, Collection, Iterable, Sequence

from penstock.engine.checkpoint.writer import CutWriter
from penstock.engine.dataflow.checkpoint_port import Contribution, CutTaken
from penstock.engine.dataflow.cut import InstanceCut
from penstock.model.failpoints import failpoint


class LocalCuts:
    """Keeps cuts by instance. All methods are called by the thread of the loop."""

    def __init__(self, writer: CutWriter, flush_letters: Callable[[], None]) -> None:
        """Begin with none; before an upload ``flush_letters`` brings dead letters to safety."""
        self._writer = writer
        self._flush_letters = flush_letters
        self._passed: dict[int, dict[str, InstanceCut]] = {}
        self._ended: dict[str, InstanceCut] = {}
        self._given_up = 0

    def take(self, cut: InstanceCut) -> CutTaken:
        """Keep a cut; return what a session hears of it."""
        if cut.ended:
            self._ended[cut.instance] = cut
        elif cut.epoch <= self._given_up:
            cut.release()
        else:
            self._passed.setdefault(cut.epoch, {})[cut.instance] = cut
        receipts = {item.operator: item.receipt for item in cut.operators if item.receipt is not None}
        stretches = tuple(stretch for item in cut.operators for stretch in item.stretches)
        return CutTaken(cut.instance, cut.epoch, cut.ended, receipts, stretches)

    def begin_upload(self, epoch: int) -> Callable[[], Sequence[Contribution]]:
        """Return what uploads the cuts of an epoch, see `CheckpointPort.begin_upload`; they are no longer kept here.

        Instances that had ended contribute to every later epoch.
        """
        passed = self._passed.pop(epoch, {})
        cuts = [*passed.values(), *(cut for name, cut in self._ended.items() if name not in passed)]

        def upload() -> Sequence[Contribution]:
            try:
                self._flush_letters()
            except BaseException:
                _release(cuts)
                raise
            contribution = self._writer.upload(epoch, cuts)
            failpoint("checkpoint.uploaded")
            return (contribution,)

        return upload

    def give_up(self, epoch: int) -> None:
        """Let go of the cuts of this epoch and of earlier ones."""
        self._given_up = max(self._given_up, epoch)
        for passed in [passed for passed in self._passed if passed <= epoch]:
            _release(self._passed.pop(passed).values())

    def forget(self, instances: Collection[str]) -> None:
        """Let go of the cuts of instances that were taken down."""
        for name in instances:
            self._ended.pop(name, None)
        for cuts in self._passed.values():
            _release(cuts.pop(name) for name in instances if name in cuts)


def _release(cuts: Iterable[InstanceCut]) -> None:
    for cut in cuts:
        cut.release()
