"""The repository of a job's checkpoints and savepoints (docs/design/checkpoints.md 3).

Below its base lie ``files/<digest>-<run>``, shared by all checkpoints, so that each uploads only what is new;
``checkpoints/<epoch>-<run>.json``, a manifest that is written last; ``savepoints/<name>/``, each complete in itself;
and ``runs/``, the lease (`run_lease`) and the manifests that the last run took over (`visible_checkpoints`).
"""

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress

from penstock.model.errors import CheckpointError, OptionError, RetryableError
from penstock.model.failpoints import failpoint
from penstock.state.checkpoints.content_files import ContentFolder
from penstock.state.checkpoints.manifest import (
    MANIFEST_BYTES_LIMIT,
    CheckpointManifest,
    FileEntry,
    decode_manifest,
    encode_manifest,
)
from penstock.state.checkpoints.results import (
    LoadedCheckpoint,
    PublishedCheckpoint,
    RetentionResult,
    SkippedCheckpoint,
    Traffic,
    describe_skipped,
)
from penstock.state.checkpoints.uploads import FILES, CheckpointUploads, uploading_runs
from penstock.state.checkpoints.visible_checkpoints import (
    fenced,
    manifest_name,
    mark_of,
    passed_over,
    run_of,
    strays,
    visible,
)
from penstock.state.files.durable_files import DurableFiles, check_name
from penstock.state.leases.run_records import RUNS, Seal, decode_seal, encode_seal, read_names

CHECKPOINTS = "checkpoints"

_DELETED_AT_ONCE = 64


class CheckpointRepository(CheckpointUploads):
    """Checkpoints and savepoints below a base, for the one process that coordinates them.

    Other processes add files by `CheckpointUploads` of their own on the same base. Those are safe from `retain` here as
    long as their epoch was begun here, before they are asked for them.
    """

    def __init__(self, files: DurableFiles, *, manifest_bytes_limit: int = MANIFEST_BYTES_LIMIT) -> None:
        """Keep the files; nothing is touched yet."""
        super().__init__(files)
        self._limit = manifest_bytes_limit
        self._changing = threading.Lock()
        # The greatest seal and the names in it, once the run has begun.
        self._seal: tuple[Seal | None, frozenset[str] | None] = None, None

    def begin_run(self, run: int) -> None:
        """Publish as this run from now on, which has the lease, and take over all complete checkpoints.

        Checkpoints that an earlier run publishes from now on never count.

        Raises:
            RetryableError: the storage failed; begin again.
        """
        with self._changing:
            seals = read_names(self.files.list(RUNS)).seals
            if not any(seal.run == run for seal in seals):
                taken_over = self._visible()
                seal = Seal(run, max(taken_over, default=0))
                failpoint("checkpoint.run.before_seal")
                self.files.write(f"{RUNS}/{seal.name}", encode_seal(list(taken_over.values())))
                failpoint("checkpoint.run.sealed")
            self._seal = self._sealed()
            self._run = run
            self.files.delete(*(f"{RUNS}/{seal.name}" for seal in seals if seal.run < run))

    def hand_over(self, epoch: int) -> Traffic:
        """Return nothing: what is added here is held, and counted, until the epoch is published."""
        return Traffic()

    def publish(self, manifest: CheckpointManifest) -> Traffic:
        """Complete a checkpoint: once this has returned, it is there for good, and with it all its files.

        Ends the progress of this epoch and of earlier ones. Publishing the same manifest again does nothing.

        Raises:
            CheckpointError: a file is not in the repository, or another manifest has this epoch.
            OptionError: the job's name is not one.
            RetryableError: the storage failed; the checkpoint is there or not: publish it again.
        """
        check_name("job", manifest.job)
        data = encode_manifest(manifest)
        if len(data) > self._limit:
            raise CheckpointError(
                f"the manifest of epoch {manifest.epoch} has {len(data):,} bytes, more than {self._limit:,}: "
                "use fewer instances or fewer files."
            )
        with self._changing:
            self._held.hold(manifest.epoch, manifest.files().values())
            self._check_present(manifest)
            path = f"{CHECKPOINTS}/{manifest_name(manifest.epoch, self._run)}"
            if not self.files.exists(path):
                failpoint("checkpoint.manifest.before_publish")
                self.files.write(path, data)
                failpoint("checkpoint.manifest.published")
            elif self.files.read(path, self._limit) != data:
                raise CheckpointError(f"epoch {manifest.epoch} was published before, as another checkpoint.")
            if self._held.is_elsewhere(manifest.epoch):
                # Who adds files elsewhere uploads damaged ones again.
                self._damaged.difference_update(manifest.files())
            traffic = self._held.release_through(manifest.epoch)
            # What no manifest needed that retention has left meanwhile, this one may need.
            with suppress(RetryableError):
                self._delete_files(self._held.take_left() - manifest.files().keys())
            return traffic

    def abandon(self, epoch: int) -> None:
        """Give up an epoch in progress; its files go with a later `retain`."""
        self._held.release(epoch)

    def epochs(self) -> Sequence[int]:
        """Return the epochs of all manifests, ascending, damaged ones too; the next one must be greater than all."""
        return list(self._visible())

    def newest(self) -> PublishedCheckpoint:
        """Return the epoch of the newest manifest, damaged or not, and the run that has published it; 0: there is none.

        The run is 0, too, if it had no lease.
        """
        epoch, name = max(self._visible().items(), default=(0, ""))
        return PublishedCheckpoint(epoch, run_of(name))

    def strays(self) -> Sequence[str]:
        """Return the paths of manifests whose numbers no checkpoint has, which are ignored."""
        return [f"{CHECKPOINTS}/{name}" for name in strays(self.files.list(CHECKPOINTS))]

    def latest(self) -> LoadedCheckpoint | None:
        """Return the newest checkpoint of which every byte is right, and why newer ones were skipped.

        None only if no checkpoint was ever published.

        Raises:
            CheckpointError: there are checkpoints, and all are damaged.
            RetryableError: the storage failed, which says nothing about the checkpoints.
        """
        skipped: list[SkippedCheckpoint] = []
        verdicts: dict[FileEntry, str | None] = {}
        passed = self._passed_over()
        for epoch, name in reversed(self._visible().items()):
            try:
                if name in passed:
                    raise CheckpointError("a start has gone back behind it, and outputs have taken back what it had.")
                manifest = self._manifest(epoch, name)
                self._verify(manifest, self._shared, verdicts)
                self._loaded = uploading_runs(manifest)
                return LoadedCheckpoint(manifest, tuple(skipped))
            except CheckpointError as error:
                skipped.append(SkippedCheckpoint(epoch, str(error)))
        if skipped:
            raise CheckpointError(
                f"no checkpoint can be restored. {describe_skipped(skipped)} "
                "Restore a savepoint, or name an empty folder."
            )
        return None

    def load(self, epoch: int) -> LoadedCheckpoint:
        """Return the checkpoint of an epoch, having checked every byte.

        Raises:
            CheckpointError: there is none, or it is damaged.
        """
        manifest = self._manifest(epoch, self._visible().get(epoch))
        self._verify(manifest, self._shared, {})
        return LoadedCheckpoint(manifest)

    def pass_over(self, checkpoints: Iterable[SkippedCheckpoint]) -> None:
        """Let `latest` never return these again: sinks take back what came of them.

        A damaged file may be whole again one day, as a later checkpoint uploads the same bytes. Their epochs stay
        taken, and their state can be read.

        Raises:
            RetryableError: the storage failed; pass over them again.
        """
        with self._changing:
            names, passed = self._visible(), self._passed_over()
            for checkpoint in checkpoints:
                name = names.get(checkpoint.epoch)
                if name is not None and name not in passed:
                    self.files.write(f"{CHECKPOINTS}/{mark_of(name)}", b"")

    def retain(self, count: int) -> RetentionResult:
        """Delete all checkpoints before the ``count`` newest complete ones, then files that no checkpoint needs.

        Damaged ones do not count. After a crash at any instant every remaining checkpoint is whole, and leftovers are
        deleted the next time. While an epoch is in progress, only files of the deleted checkpoints go; if other
        processes add to it, they go once it is published.

        Raises:
            OptionError: ``count`` is below 1.
        """
        if count < 1:
            raise OptionError(f"at least 1 checkpoint must be retained, not {count}.")
        with self._changing:
            manifests, unreadable = self._manifests()
            present = set(self.files.list(FILES))
            sound, counting, passed = present - self._damaged, self._visible(), self._passed_over()
            complete = [
                epoch
                for epoch, manifest in manifests.items()
                if counting[epoch] not in passed and sound.issuperset(manifest.files())
            ]
            oldest = complete[-count] if len(complete) >= count else 0
            old = {epoch: manifest for epoch, manifest in manifests.items() if epoch < oldest}
            deleted_epochs = sorted([*old, *(bad.epoch for bad in unreadable if bad.epoch < oldest)])
            for epoch in deleted_epochs:
                failpoint("checkpoint.retain.before_manifest")
                self._delete_manifests((counting[epoch],), passed)
                failpoint("checkpoint.retain.manifest_deleted")
            staying = tuple(bad for bad in unreadable if bad.epoch >= oldest)
            needed = _stored(manifest for epoch, manifest in manifests.items() if epoch not in old)
            unneeded = (_stored(old.values()) & present if self._held.any() else present) - needed
            return RetentionResult(tuple(deleted_epochs), 0 if staying else self._delete_files(unneeded), staying)

    def sweep(self) -> None:
        """Remove the leftovers of a crash: unfinished writes, files of no checkpoint, savepoints without a manifest.

        Call it at a start, before anything is written.
        """
        with self._changing:
            for folder in (FILES, CHECKPOINTS):
                self.files.clear_unfinished(folder)
            names = self.files.list(CHECKPOINTS)
            passed = passed_over(names)
            self._delete_manifests((*fenced(names, self._visible(), self._run), *passed.difference(names)), passed)
            self._savepoints.delete_incomplete()
            manifests, unreadable = self._manifests()
            if not unreadable:
                self._delete_files(set(self.files.list(FILES)) - _stored(manifests.values()))

    def save(self, name: str, manifest: CheckpointManifest) -> None:
        """Copy a checkpoint of this repository to a savepoint, which needs none of the checkpoint's files afterwards.

        Raises:
            OptionError: the name is not one, or is taken.
            CheckpointError: a file is missing or damaged; there is no savepoint then.
        """
        check_name("savepoint", name)
        self._held.hold(name, manifest.files().values())
        try:
            self._savepoints.write(name, manifest, self._shared)
        finally:
            self._held.release(name)

    def savepoint(self, name: str) -> LoadedCheckpoint:
        """Return a savepoint, having checked every byte.

        Raises:
            OptionError: the name is not one.
            CheckpointError: there is none, or it is damaged.
        """
        try:
            manifest = self._decoded(self._savepoints.manifest_path(name))
        except FileNotFoundError:
            names = ", ".join(self.savepoints()) or "none"
            raise CheckpointError(f"there is no savepoint {name!r}; there are: {names}.") from None
        self._verify(manifest, self._savepoints.contents(name), {})
        return LoadedCheckpoint(manifest, savepoint=name)

    def savepoints(self) -> Sequence[str]:
        """Return the names of all savepoints, sorted."""
        return self._savepoints.names()

    def restorable(self) -> Sequence[int]:
        """Return the epochs of all checkpoints that count and of all savepoints.

        Raises:
            CheckpointError: the manifest of a savepoint is damaged.
        """
        manifests = map(self._decoded, map(self._savepoints.manifest_path, self.savepoints()))
        return sorted({*self._visible(), *(manifest.epoch for manifest in manifests)})

    def delete_savepoint(self, name: str) -> None:
        """Delete a savepoint, if it exists.

        Raises:
            OptionError: the name is not one.
        """
        self._savepoints.delete(name)

    def _check_present(self, manifest: CheckpointManifest) -> None:
        present = set(self.files.list(FILES))
        for entry in manifest.files().values():
            if entry.stored not in present:
                raise CheckpointError(
                    f"epoch {manifest.epoch} cannot be published: the file {entry.name!r} ({entry.stored}) "
                    "is not in the repository."
                )

    def _delete_files(self, stored: set[str]) -> int:
        """Delete files unless they are held, a few at a time so that nobody waits long to hold one."""
        ordered = sorted(stored)
        starts = range(0, len(ordered), _DELETED_AT_ONCE)
        return sum(self._held.free(ordered[start : start + _DELETED_AT_ONCE], self._delete) for start in starts)

    def _delete(self, stored: list[str]) -> None:
        failpoint("checkpoint.retain.before_files")
        self.files.delete(*(f"{FILES}/{name}" for name in stored))
        failpoint("checkpoint.retain.files_deleted")

    def _delete_manifests(self, names: Sequence[str], passed: frozenset[str]) -> None:
        """Delete manifests, there or not, and after them the marks that they were passed over."""
        marks = [mark_of(name) for name in names if name in passed]
        self.files.delete(*(f"{CHECKPOINTS}/{name}" for name in [*names, *marks]))

    def _passed_over(self) -> frozenset[str]:
        return passed_over(self.files.list(CHECKPOINTS))

    def _manifests(self) -> tuple[dict[int, CheckpointManifest], list[SkippedCheckpoint]]:
        """Return the manifests that can be read, by ascending epoch, and the others."""
        manifests: dict[int, CheckpointManifest] = {}
        unreadable: list[SkippedCheckpoint] = []
        for epoch, name in self._visible().items():
            try:
                manifests[epoch] = self._manifest(epoch, name)
            except CheckpointError as error:
                unreadable.append(SkippedCheckpoint(epoch, str(error)))
        return manifests, unreadable

    def _manifest(self, epoch: int, name: str | None) -> CheckpointManifest:
        try:
            if name is None:
                raise FileNotFoundError
            manifest = self._decoded(f"{CHECKPOINTS}/{name}")
        except FileNotFoundError:
            raise CheckpointError(f"there is no checkpoint of epoch {epoch}.") from None
        if manifest.epoch != epoch:
            raise CheckpointError(f"the manifest is that of epoch {manifest.epoch}.")
        return manifest

    def _visible(self) -> dict[int, str]:
        """Return the names of the manifests that count, by ascending epoch."""
        seal, taken_over = self._sealed()
        return visible(self.files.list(CHECKPOINTS), seal, taken_over)

    def _sealed(self) -> tuple[Seal | None, frozenset[str] | None]:
        """Return the greatest seal and the names in it; a run that has begun uses its own."""
        while not self._run:
            seals = read_names(self.files.list(RUNS)).seals
            if not seals:
                return None, None
            # One that is gone was deleted by a run that has written another.
            with suppress(FileNotFoundError):
                return seals[-1], decode_seal(self.files.read(f"{RUNS}/{seals[-1].name}", self._limit))
        return self._seal

    def _decoded(self, path: str) -> CheckpointManifest:
        data = self.files.read(path, self._limit)
        if len(data) > self._limit:
            raise CheckpointError(f"the manifest is longer than {self._limit:,} bytes.")
        return decode_manifest(data)

    def _verify(
        self, manifest: CheckpointManifest, folder: ContentFolder, verdicts: dict[FileEntry, str | None]
    ) -> None:
        """Check every file, each entry once as long as ``verdicts`` are handed on, and name the first damaged one."""
        first = None
        for instance in manifest.instances:
            for entry in instance.files:
                if entry not in verdicts:
                    verdicts[entry] = folder.damage(entry)
                    if verdicts[entry] is not None and folder is self._shared:
                        self._damaged.add(entry.stored)
                if first is None and verdicts[entry] is not None:
                    first = f"operator {instance.operator!r}, instance {instance.instance}: {verdicts[entry]}"
        if first is not None:
            raise CheckpointError(first)


def _stored(manifests: Iterable[CheckpointManifest]) -> set[str]:
    return {stored for manifest in manifests for stored in manifest.files()}
