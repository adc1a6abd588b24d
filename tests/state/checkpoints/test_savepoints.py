"""Savepoints are complete in themselves, or not there."""

import pytest

from penstock.model import failpoints
from penstock.model.errors import CheckpointError, OptionError
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.local_files import LocalFiles
from penstock.state.files.simulated_files import SimulatedFiles
from tests.state.checkpoints.checkpoint_support import Crash, checkpoint, content, crash_at, is_whole, simulated


@pytest.fixture
def disarmed():
    yield
    failpoints.arm(None)


@pytest.fixture
def local(tmp_path):
    return CheckpointRepository(LocalFiles(tmp_path / "base"))


def test_a_savepoint_needs_nothing_else(local, tmp_path):
    checkpoint(local, 1)
    local.save("before-upgrade", local.latest().manifest)
    for epoch in (4, 5):
        checkpoint(local, epoch)
    local.retain(1)
    alone = CheckpointRepository(LocalFiles(tmp_path / "alone"))
    (tmp_path / "alone").mkdir()
    (tmp_path / "base/savepoints").rename(tmp_path / "alone/savepoints")
    loaded = alone.savepoint("before-upgrade")
    assert loaded.savepoint == "before-upgrade"
    assert is_whole(alone, loaded)
    alone.contents(loaded.savepoint).fetch(loaded.manifest.instances[0].files[0], tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == content(1)["base.sst"]
    assert alone.savepoints() == ["before-upgrade"]
    with pytest.raises(OptionError, match="already"):
        alone.save("before-upgrade", loaded.manifest)
    with pytest.raises(CheckpointError, match=r"no savepoint 'x'; there are: before-upgrade\."):
        alone.savepoint("x")
    alone.delete_savepoint("before-upgrade")
    assert alone.savepoints() == []


def test_a_savepoint_of_a_damaged_checkpoint_is_not_made():
    disk, repository = simulated()
    checkpoint(repository, 1)
    manifest = repository.latest().manifest
    disk.flip(f"files/{manifest.instances[0].files[1].digest}", 0)
    with pytest.raises(CheckpointError, match="damaged"):
        repository.save("s", manifest)
    assert repository.savepoints() == []


def test_a_damaged_savepoint_is_refused():
    disk, repository = simulated()
    checkpoint(repository, 1)
    repository.save("s", repository.latest().manifest)
    disk.flip(f"savepoints/s/files/{repository.latest().manifest.instances[0].files[1].digest}", 0)
    with pytest.raises(CheckpointError, match="damaged"):
        repository.savepoint("s")
    assert is_whole(repository, repository.latest())


@pytest.mark.usefixtures("disarmed")
def test_a_crash_while_saving_leaves_no_savepoint_or_a_whole_one():
    for point in range(60):
        disk, repository = simulated(point)
        checkpoint(repository, 1)
        crash_at(point)
        try:
            repository.save("s", repository.latest().manifest)
            done = True
        except Crash:
            done = False
        failpoints.arm(None)
        disk.crash()
        restarted = CheckpointRepository(SimulatedFiles(disk))
        if restarted.savepoints():
            assert is_whole(restarted, restarted.savepoint("s"))
        else:
            assert not done
        restarted.sweep()
        if not done and not restarted.savepoints():
            restarted.save("s", restarted.latest().manifest)
            assert is_whole(restarted, restarted.savepoint("s"))
