"""A power loss at every failpoint of checkpoints and retention; bugs planted on purpose must show."""

import pytest

from penstock.model import failpoints
from penstock.model.errors import CheckpointError, RetryableError
from penstock.state.checkpoints.content_files import ContentFolder
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files import simulated_files
from penstock.state.files.simulated_files import SimulatedDisk, SimulatedFiles
from tests.state.checkpoints.checkpoint_support import Crash, checkpoint, crash_at, is_whole, simulated

KEPT = 2


@pytest.fixture(autouse=True)
def disarmed():
    yield
    failpoints.arm(None)


def wrongs(seed, point, first=3, last=6):
    """Take checkpoints, lose power at the point-th failpoint, and return what a restart finds wrong, or None.

    Also returns whether the failpoint was reached.
    """
    disk, repository = simulated(seed)
    for epoch in range(1, first):
        checkpoint(repository, epoch)
    published, tried = first - 1, first - 1
    crash_at(point)
    crashed = False
    try:
        for tried in range(first, last):
            checkpoint(repository, tried)
            published = tried
            repository.retain(KEPT)
    except Crash:
        crashed = True
    failpoints.arm(None)
    disk.crash()
    restarted = CheckpointRepository(SimulatedFiles(disk))
    return _wrong(restarted, published, tried), crashed


def _wrong(restarted, published, tried):
    try:
        loaded = restarted.latest()
    except CheckpointError as error:
        return str(error)
    if loaded is None:
        return "nothing is left"
    if loaded.skipped:
        return loaded.warning()
    if loaded.manifest.epoch not in (published, tried):
        return f"epoch {loaded.manifest.epoch} instead of {published} or {tried}"
    if not is_whole(restarted, loaded):
        return "other content"
    restarted.sweep()
    try:
        for epoch in restarted.epochs()[-KEPT:]:
            if not is_whole(restarted, restarted.load(epoch)):
                return f"epoch {epoch} has other content"
    except CheckpointError as error:
        return str(error)
    following = restarted.epochs()[-1] + 1
    checkpoint(restarted, following)
    restarted.retain(1)
    needed = {file.digest for file in restarted.latest().manifest.instances[0].files}
    return None if set(restarted.files.list("files")) == needed else "files are left over"


def first_wrong(seeds=200):
    """Return the first thing that a crash at any failpoint brings to light."""
    for seed in range(seeds):
        wrong, _ = wrongs(seed, seed * 7 % 70)
        if wrong is not None:
            return wrong
    return None


def test_a_crash_at_every_failpoint_leaves_one_of_two_epochs_whole():
    point, crashed = 0, True
    while crashed:
        for seed in range(3):
            wrong, crashed = wrongs(seed * 1000 + point, point)
            assert wrong is None, f"at failpoint {point}, seed {seed}: {wrong}"
        point += 1
    assert point > 50


def test_the_failpoints_lie_around_every_durable_step():
    names = set()
    failpoints.arm(names.add)
    _, repository = simulated()
    for epoch in (1, 2, 3, 4):
        checkpoint(repository, epoch)
    repository.retain(1)
    repository.save("s", repository.latest().manifest)
    repository.delete_savepoint("s")
    assert names == {
        "checkpoint.file.before_upload",
        "checkpoint.file.uploaded",
        "checkpoint.manifest.before_publish",
        "checkpoint.manifest.published",
        "checkpoint.retain.before_manifest",
        "checkpoint.retain.manifest_deleted",
        "checkpoint.retain.before_files",
        "checkpoint.retain.files_deleted",
        "savepoint.before_publish",
        "savepoint.published",
        "savepoint.manifest_deleted",
        "files.write.before_sync",
        "files.write.before_rename",
        "files.write.renamed",
        "files.write.done",
    }


def test_a_disk_that_fills_up_leaves_the_old_checkpoint_and_recovers():
    disk, repository = simulated()
    checkpoint(repository, 3)
    before = disk.used_bytes()
    checkpoint(repository, 4)
    step = (disk.used_bytes() - before) // 20
    for level in range(20):
        disk, repository = simulated(level)
        checkpoint(repository, 3)
        disk.capacity_bytes = before + level * step
        with pytest.raises(RetryableError, match="No space left"):
            checkpoint(repository, 4)
        repository.abandon(4)
        assert repository.latest().manifest.epoch == 3
        assert repository.latest().skipped == ()
        disk.capacity_bytes = None
        checkpoint(repository, 4)
        assert is_whole(repository, repository.latest())


def test_without_a_bug_nothing_is_found():
    assert first_wrong() is None


def test_publishing_before_the_files_are_there_is_found(monkeypatch):
    """Planted: the manifest is published first, and the files follow."""
    upload, publish = ContentFolder.upload, CheckpointRepository.publish
    late = []

    def publish_first(repository, manifest):
        traffic = publish(repository, manifest)
        while late:
            arguments, options = late.pop(0)
            upload(*arguments, **options)
        return traffic

    monkeypatch.setattr(ContentFolder, "upload", lambda *arguments, **options: late.append((arguments, options)))
    monkeypatch.setattr(CheckpointRepository, "_check_present", lambda *arguments: None)
    monkeypatch.setattr(CheckpointRepository, "publish", publish_first)
    assert "is missing" in first_wrong()


def test_publishing_before_the_files_are_synced_is_found(monkeypatch):
    """Planted: files are renamed without having been synced."""
    monkeypatch.setattr(simulated_files._OpenFile, "sync", lambda file: None)
    assert "damaged" in first_wrong()


def test_publishing_without_syncing_the_folder_is_found(monkeypatch):
    monkeypatch.setattr(SimulatedDisk, "sync_folder", lambda disk, folder: None)
    assert first_wrong() is not None


def test_deleting_a_file_that_is_needed_is_found(monkeypatch):
    """Planted: retention forgets that checkpoints share files."""
    real = CheckpointRepository._delete_files
    monkeypatch.setattr(
        CheckpointRepository,
        "_delete_files",
        lambda self, digests: real(self, digests | set(self.files.list("files")[:1]) if digests else digests),
    )
    assert "is missing" in first_wrong()
