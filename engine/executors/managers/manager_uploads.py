"""The part that one task manager has in the checkpoints of a job: files that it adds to them, state that it reads."""

from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.engine.checkpoint.local_cuts import LocalCuts
from penstock.engine.core.background import Background
from penstock.engine.dataflow.checkpoint_port import Contribution
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.failures import Failure
from penstock.engine.executors.managers.setup import Storage
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.restore.compatibility import fit
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.errors import RetryableError
from penstock.state.checkpoints.manifest import decode_manifest
from penstock.state.checkpoints.results import LoadedCheckpoint
from penstock.state.checkpoints.uploads import CheckpointUploads, uploading_runs
from penstock.state.stores.page_store import PageStores


class ManagerUploads:
    """Uploads of one process to the ``repository`` of a job, and what it is restored from."""

    def __init__(self, storage: Storage, page_stores: PageStores) -> None:
        """Begin without a run: `join_run` comes first. ``page_stores`` read the pages that checkpoints have."""
        self._storage, self._page_stores = storage, page_stores
        self._run = storage.run
        self.repository = CheckpointUploads(storage.files)

    def join_run(self, restore: ms.Restore | None, plan: JobPlan, scratch: Path) -> RestoredState | None:
        """Let uploads count on a checkpoint, and return its state for a plan; None: the job begins afresh.

        The caller closes it; files are copied below ``scratch``.
        """
        manifest = None if restore is None else decode_manifest(restore.manifest)
        runs = {} if manifest is None else uploading_runs(manifest)
        self.repository.join_run(self._run, runs, () if restore is None else restore.damaged)
        if restore is None or manifest is None:
            return None
        restored = RestoredState(
            LoadedCheckpoint(manifest, savepoint=restore.savepoint),
            self.repository.contents(restore.savepoint),
            scratch,
            self._page_stores,
            fit(manifest, plan.graph, self._storage.allowed),
        )
        restored.closed = frozenset(restore.closed)
        if restore.afresh:
            restored.begin_afresh()
        return restored

    def follow(self, order: ms.Adopt) -> None:
        """Let uploads be those of a later run, and count on the checkpoint that it goes on from."""
        self._run = order.run
        runs = {} if order.manifest is None else uploading_runs(decode_manifest(order.manifest))
        self.repository.join_run(self._run, runs, order.damaged)

    def begin(self, epoch: int, upload: Callable[[], Sequence[Contribution]]) -> Callable[[], ms.Uploaded]:
        """Return the work, for a thread of its own, that uploads what ``upload`` contributes to an epoch."""

        def work() -> ms.Uploaded:
            (part,) = upload()
            traffic = self.repository.hand_over(epoch)
            positions = {name: dict(marks) for name, marks in part.positions.items()}
            counters = {name: dict(counts) for name, counts in part.counters.items()}
            return ms.Uploaded(epoch, part.entries, positions, counters, traffic, dict(part.ended))

        return work


def upload(
    epoch: int,
    cuts: LocalCuts | None,
    uploads: ManagerUploads | None,
    background: Background,
    tell: Callable[[ms.ToHead], None],
    failure: Callable[[BaseException], Failure],
) -> None:
    """Bring the cuts of an epoch to the repository in the background, and tell the head what became of them."""
    if cuts is None or uploads is None:
        tell(ms.UploadFailed(epoch, failure(RetryableError(f"checkpoint {epoch}: its instances are gone"))))
        return
    work = uploads.begin(epoch, cuts.begin_upload(epoch))

    def answer(uploaded: ms.Uploaded | None, error: BaseException | None) -> None:
        if uploaded is not None:
            tell(uploaded)
        elif error is not None:
            tell(ms.UploadFailed(epoch, failure(error)))

    background.submit(work, answer)
