"""Retention: what is old goes, what a checkpoint or an epoch in progress needs stays."""

import os
import threading

import pytest

from penstock.model.errors import OptionError
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.checkpoints.results import RetentionResult
from penstock.state.files.local_files import LocalFiles
from penstock.state.files.simulated_files import SimulatedFiles
from tests.state.checkpoints.checkpoint_support import checkpoint, content, is_whole, manifest_of, restored, simulated


@pytest.fixture
def local(tmp_path):
    return CheckpointRepository(LocalFiles(tmp_path / "base"))


def needed(repository, epochs):
    return {file.digest for epoch in epochs for file in repository.load(epoch).manifest.instances[0].files}


def test_old_checkpoints_go_and_shared_files_stay():
    _, repository = simulated()
    for epoch in range(1, 8):
        checkpoint(repository, epoch)
    assert repository.retain(9) == RetentionResult()
    assert repository.retain(2) == RetentionResult((1, 2, 3, 4, 5), 5 + 3)
    assert repository.epochs() == [6, 7]
    assert set(repository.files.list("files")) == needed(repository, [6, 7])
    for epoch in (6, 7):
        assert is_whole(repository, repository.load(epoch))
    with pytest.raises(OptionError, match="at least 1"):
        repository.retain(0)


def test_files_of_an_epoch_in_progress_stay_and_those_of_an_abandoned_one_go():
    _, repository = simulated()
    for epoch in (1, 2, 3):
        checkpoint(repository, epoch)
    old = next(file for file in repository.load(1).manifest.instances[0].files if file.name == "1.sst")
    assert repository.reuse(4, old)
    repository.add_file(4, "new", b"new")
    repository.retain(1)
    repository.publish(manifest_of(4, [old]))
    assert restored(repository, repository.latest()) == {"1.sst": content(1)["1.sst"]}
    repository.add_file(5, "given-up", b"given up")
    repository.abandon(5)
    repository.retain(1)
    assert repository.files.list("files") == [old.digest]


def test_files_of_other_processes_stay_while_the_epoch_is_in_progress():
    disk, repository = simulated()
    for epoch in (1, 2):
        checkpoint(repository, epoch)
    repository.begin(3)
    elsewhere = CheckpointRepository(SimulatedFiles(disk))
    entry = elsewhere.add_file(3, "x", b"elsewhere")
    assert repository.retain(1).epochs == (1,)
    repository.publish(manifest_of(3, [entry]))
    assert repository.latest().manifest.epoch == 3
    assert repository.latest().skipped == ()


def test_damaged_checkpoints_do_not_count():
    disk, repository = simulated()
    for epoch in (1, 2, 3, 4):
        checkpoint(repository, epoch)
    disk.flip("checkpoints/0000000004.json", 999)
    kept = repository.retain(2)
    assert (kept.epochs, kept.files, [bad.epoch for bad in kept.unreadable]) == ((1,), 0, [4])
    assert repository.latest().manifest.epoch == 3
    checkpoint(repository, 5)
    checkpoint(repository, 6)
    assert repository.retain(2).epochs == (2, 3, 4)
    assert set(repository.files.list("files")) == needed(repository, [5, 6])


def test_what_others_left_is_swept(tmp_path, local):
    checkpoint(local, 1)
    base = tmp_path / "base"
    for path in ("files/.x.1.unfinished", "checkpoints/.y.2.unfinished", "files/orphan", "savepoints/s/files/z"):
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_bytes(b"left over")
    assert is_whole(local, local.latest())
    assert local.savepoints() == []
    local.sweep()
    left = sorted(str(path.relative_to(base)) for path in base.rglob("*") if path.is_file())
    assert left == ["checkpoints/0000000001.json", *(f"files/{digest}" for digest in sorted(needed(local, [1])))]


def test_threads_add_and_one_retains(local):
    failures = []

    def add(worker):
        try:
            for epoch in range(2, 30):
                local.add_file(epoch, "x", b"the same" * 1000)
                local.add_file(epoch, "y", os.urandom(100))
        except BaseException as error:
            failures.append((worker, error))

    checkpoint(local, 1)
    threads = [threading.Thread(target=add, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        local.retain(1)
    for thread in threads:
        thread.join()
    assert failures == []
    entry = local.add_file(30, "x", b"the same" * 1000)
    local.publish(manifest_of(30, [entry]))
    local.retain(1)
    assert local.files.list("files") == [entry.digest]
