"""A folder whose files appear by checkpoints, each exactly once. Called by the file sinks.

``_staging`` holds what is not committed, of each run in its own folder, ``_penstock`` the manifest. Once that lists the
files of a checkpoint they are moved into place; in place stands nothing that it does not list, except while a
checkpoint is taken back.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.engine.connectors.files.finished_files import remove_other_parts, sync_folder
from penstock.engine.connectors.files.manifest import (
    Manifest,
    manifest_epochs,
    manifest_path,
    newest_manifest,
    write_manifest,
)
from penstock.engine.connectors.files.output_check import changed_files, refusal
from penstock.engine.connectors.files.run_staging import RunStaging
from penstock.engine.connectors.files.staged_files import (
    OutputFile,
    StagedFile,
    check_staged,
    epoch_of,
    from_receipts,
)
from penstock.model.errors import BugError, FatalError, RetryableError
from penstock.model.failpoints import failpoint
from penstock.model.sink_context import OutputRun, RunMark

LAST_EPOCH = 10**18 - 1
"""Later than any epoch that the name of a file has."""


class CommittedFolder:
    """One output directory of files with one suffix. Epochs count from 1."""

    def __init__(self, path: Path, suffix: str, *, sink: str | None = None, accept_changed: bool = False) -> None:
        """Nothing is touched yet; ``sink`` is the operator that writes.

        ``accept_changed``: go on although files that were committed are gone or were changed since.
        """
        self._sink = sink
        self._accept_changed = accept_changed
        self._path = path
        self._suffix = suffix
        self._root = path / "_staging"
        self._staging = RunStaging(self._root, None)
        self._manifests = path / "_penstock"

    def begin_run(self, run: OutputRun) -> None:
        """Write as this run from now on, which has the lease of the directory; `recover` takes over from others."""
        if self._staging.has_adopted(run):
            return
        self._staging = RunStaging(self._root, run)

    def begin(self, instance: int) -> StagedFile:
        """Begin a file of an instance."""
        with self.writing():
            return StagedFile(self._staging.folder, instance, self._suffix)

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        """Publish the manifest of ``epoch``, then move its files into place; what is done already stays.

        Raises:
            FatalError: a file differs from its receipt, or the receipts from what was committed; nothing is published.
            RetryableError: the directory cannot be written.
        """
        if epoch < 1:
            raise BugError(f"checkpoint {epoch} cannot be committed: epochs count from 1")
        files = from_receipts(receipts, self._suffix, epoch)
        failpoint("sink.commit.before")
        with self.writing():
            manifest = self._manifest(epoch)
            self._check_known(epoch, {*manifest.all_files(), *(file.name for file in files)})
            if epoch <= manifest.epoch:
                if not manifest.is_of(epoch, files):
                    raise self._foreign(epoch)
            else:
                for file in files:
                    check_staged(self._staging.folder / file.name, file)
                manifest = manifest.extended(epoch, files)
                write_manifest(self._manifests, manifest, self._staging.folder)
            self._move(manifest)
            self._remove_manifests([item for item in manifest_epochs(self._manifests) if item < manifest.epoch])
        failpoint("sink.commit.after")

    def recover(self, epoch: int | None, receipts: Sequence[Any]) -> None:
        """Bring the directory to what it was after the commit of ``epoch``; None: begin anew, with nothing in it.

        Raises:
            FatalError: the directory does not go with the checkpoint, or files in it were changed or removed.
            RetryableError: the directory cannot be written.
        """
        with self._recovering():
            if epoch is None:
                self._begin_anew(0)
            else:
                self._roll_back(epoch)
                self.commit(epoch, receipts)
                self._clear_staging(())
                self._check_committed(self._manifest(epoch))

    def join(self, epoch: int) -> None:
        """Begin anew behind the commit of ``epoch``, which added nothing here, as nothing before it did.

        Raises:
            FatalError: the directory holds output that was committed up to ``epoch``.
            RetryableError: the directory cannot be written.
        """
        with self._recovering():
            manifest = newest_manifest(self._manifests)
            if manifest is not None and any(item.epoch <= epoch for item in manifest.epochs):
                raise FatalError(
                    f"{str(self._path)!r} holds output that was committed before checkpoint {epoch}, and this sink is "
                    "not in that checkpoint: give it its old name back if it was renamed, or an empty directory"
                )
            self._begin_anew(epoch)

    def claim(self) -> dict[str, Any] | None:
        """Return the run in whose folder is written, for `adopt`; None: there is but one."""
        mark = self._staging.mark
        return None if mark is None else {"number": mark.number, "token": mark.token}

    def adopt(self, epoch: int, receipts: Sequence[Any], claim: Any) -> None:
        """Go on with writers that live, behind the commit of ``epoch``, in the folder of the run that they are of.

        Raises:
            FatalError: what they have prepared is gone, or the directory does not go with the checkpoint.
            RetryableError: the directory cannot be read.
        """
        files = from_receipts(receipts, self._suffix, LAST_EPOCH)
        with self.writing():
            self._staging.adopt(None if claim is None else RunMark(claim["number"], claim["token"]))
            manifest = self._manifest(epoch)
            if manifest.epoch > epoch:
                raise self._foreign(epoch)
            for file in files:
                if not (self._staging.folder / file.name).is_file() and not (self._path / file.name).is_file():
                    check_staged(self._staging.folder / file.name, file)

    def remove_epochs(self) -> None:
        """Remove everything that was committed, the manifest first."""
        if self._manifests.is_dir():
            self._remove_manifests(manifest_epochs(self._manifests))
            self._remove_unlisted({}, -1)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn what goes wrong with the disk into an error that may pass.

        Raises:
            FencedError: it went wrong because another run has taken over.
            RetryableError: naming the directory and what is wrong.
        """
        try:
            yield
        except FatalError:
            self._staging.check()
            raise
        except OSError as error:
            self._staging.check()
            raise RetryableError(f"cannot write to {str(self._path)!r}: {error.strerror or error}") from None

    @contextmanager
    def _recovering(self) -> Iterator[None]:
        """Make the folders, take over from earlier runs, and remove what was being written when a process died."""
        failpoint("sink.recover.before")
        with self.writing():
            self._make_folders()
            self._staging.begin()
            for path in self._manifests.glob(".*"):
                path.unlink(missing_ok=True)
            yield
        failpoint("sink.recover.after")

    def _begin_anew(self, epoch: int) -> None:
        self.remove_epochs()
        remove_other_parts(self._path, self._suffix, 0, self._staging.remove)
        self._clear_staging(())
        write_manifest(self._manifests, Manifest(self._suffix, epoch), self._staging.folder)

    def _manifest(self, epoch: int) -> Manifest:
        manifest = newest_manifest(self._manifests)
        if manifest is None or manifest.suffix != self._suffix:
            raise self._foreign(epoch)
        return manifest

    def _foreign(self, epoch: int) -> FatalError:
        return FatalError(
            f"{str(self._path)!r} holds other output than that of checkpoint {epoch}: restore a checkpoint that was "
            "written to this directory, give every sink a directory of its own, or start the job anew"
        )

    def _check_known(self, epoch: int, names: set[str]) -> None:
        """Raise `FatalError` if something up to ``epoch`` was prepared and is not among the receipts."""
        for path in self._staged():
            staged = epoch_of(path.name)
            if staged is not None and staged <= epoch and path.name not in names:
                raise FatalError(
                    f"{str(path)!r} is output that checkpoint {epoch} does not know of, and would be lost: "
                    "another job writes to the directory, or a receipt is missing"
                )

    def _roll_back(self, epoch: int) -> None:
        """Take back what came after ``epoch``."""
        manifest = self._manifest(epoch)
        failpoint("sink.rollback.before")
        if epoch < manifest.epoch:
            manifest = manifest.rolled_back(epoch)
            write_manifest(self._manifests, manifest, self._staging.folder)
            self._remove_manifests([item for item in reversed(manifest_epochs(self._manifests)) if item > epoch])
        self._remove_unlisted(manifest.all_files(), epoch)
        self._clear_staging(range(epoch + 1))
        failpoint("sink.rollback.after")

    def _check_committed(self, manifest: Manifest) -> None:
        """Compare what stands in place with the manifest, and note in it what is accepted as it is now."""
        listed = manifest.all_files()
        changed = changed_files(self._path, listed.values())
        if not changed:
            return
        if not self._accept_changed:
            raise refusal(self._path, changed, len(listed), self._sink)
        now = {item.file.name: item.now for item in changed}
        write_manifest(self._manifests, manifest.with_files({**listed, **now}), self._staging.folder)

    def _move(self, manifest: Manifest) -> None:
        """Move listed files that are still staged, of an earlier epoch too if a crash came between."""
        listed = manifest.all_files()
        moved = False
        for path in self._staged():
            file = listed.get(path.name)
            if file is not None:
                check_staged(path, file)
                failpoint("sink.move.before")
                path.replace(self._path / path.name)
                moved = True
                failpoint("sink.move.after")
        if moved:
            sync_folder(self._path)
            sync_folder(self._staging.folder)
            failpoint("sink.move.synced")

    def _remove_manifests(self, epochs: Sequence[int]) -> None:
        for epoch in epochs:
            failpoint("sink.manifest.remove.before")
            self._staging.remove(manifest_path(self._manifests, epoch))
        if epochs:
            sync_folder(self._manifests)
            failpoint("sink.manifest.remove.after")

    def _remove_unlisted(self, listed: dict[str, OutputFile], epoch: int) -> None:
        """Remove the files of epochs after ``epoch`` that stand in place unlisted.

        Raises:
            FatalError: one of an earlier epoch is not listed either.
        """
        removed = False
        for path in sorted(self._path.glob(f"part-*{self._suffix}")):
            staged = epoch_of(path.name)
            if staged is None or path.name in listed:
                continue
            if staged <= epoch:
                raise self._foreign(epoch)
            failpoint("sink.rollback.remove")
            self._staging.remove(path)
            removed = True
        if removed:
            sync_folder(self._path)
            failpoint("sink.rollback.removed")

    def _staged(self) -> list[Path]:
        return sorted(self._staging.folder.glob(f"part-*{self._suffix}"))

    def _clear_staging(self, kept: Sequence[int]) -> None:
        """Remove what was begun, and what was prepared for other epochs than ``kept``."""
        for path in sorted(self._staging.folder.iterdir()):
            if epoch_of(path.name) not in kept:
                failpoint("sink.clear")
                path.unlink(missing_ok=True)

    def _make_folders(self) -> None:
        for folder in (*reversed(self._path.parents), self._path, self._root, self._manifests):
            if not folder.is_dir():
                folder.mkdir()
                sync_folder(folder.parent)
