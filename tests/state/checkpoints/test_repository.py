"""The checkpoint repository: what is published can be had, what is damaged is named and skipped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model import failpoints
from penstock.model.errors import CheckpointError, OptionError, RetryableError
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.checkpoints.results import SkippedCheckpoint, Traffic
from penstock.state.files.local_files import LocalFiles
from penstock.state.files.simulated_files import SimulatedFiles
from tests.state.checkpoints.checkpoint_support import (
    checkpoint,
    content,
    is_whole,
    manifest_of,
    restored,
    simulated,
)


@pytest.fixture
def local(tmp_path):
    return CheckpointRepository(LocalFiles(tmp_path / "base"))


def paths(disk, folder=""):
    """Return the paths of all files on a simulated disk."""
    files, folders = disk.names(folder)
    inner = [path for name in folders for path in paths(disk, f"{folder}/{name}".lstrip("/"))]
    return sorted([f"{folder}/{name}".lstrip("/") for name in files] + inner)


def test_what_is_published_is_the_latest(local, tmp_path):
    assert local.latest() is None
    for epoch in (1, 2, 3):
        checkpoint(local, epoch)
    assert local.epochs() == [1, 2, 3]
    loaded = local.latest()
    assert loaded.manifest.epoch == 3
    assert loaded.skipped == ()
    assert loaded.warning() is None
    assert is_whole(local, loaded)
    assert is_whole(local, local.load(1))
    for entry in loaded.manifest.instances[0].files:
        local.contents().fetch(entry, tmp_path / entry.name)
        assert (tmp_path / entry.name).read_bytes() == content(3)[entry.name]
    with pytest.raises(CheckpointError, match="there is no checkpoint of epoch 4"):
        local.load(4)


def test_only_what_is_new_is_uploaded(local, tmp_path):
    sizes = {name: len(data) for epoch in (2, 3) for name, data in content(epoch).items()}
    assert checkpoint(local, 2) == Traffic(3, sizes["base.sst"] + sizes["2.sst"] + sizes["half-1.sst"], 0, 0)
    assert checkpoint(local, 3) == Traffic(1, sizes["3.sst"], 2, sizes["base.sst"] + sizes["half-1.sst"])
    entry = local.latest().manifest.instances[0].files[0]
    assert local.reuse(4, entry)
    (tmp_path / "new.sst").write_bytes(b"new")
    new = local.add_file(4, "new.sst", tmp_path / "new.sst")
    assert local.publish(manifest_of(4, [entry, new])) == Traffic(1, 3, 1, entry.bytes)


def test_publishing_again(local):
    entries = [local.add_file(1, "x", b"1")]
    local.publish(manifest_of(1, entries))
    local.publish(manifest_of(1, entries))
    with pytest.raises(CheckpointError, match="epoch 1 was published before, as another"):
        local.publish(manifest_of(1, entries, created_us=0))


def test_a_manifest_with_a_file_that_is_not_there_is_not_published(local):
    entry = local.add_file(1, "x", b"1")
    missing = CheckpointRepository(LocalFiles(local.files.base / "other")).add_file(1, "y", b"2")
    with pytest.raises(CheckpointError, match="the file 'y'"):
        local.publish(manifest_of(1, [entry, missing]))
    assert local.latest() is None


def test_a_file_that_changes_while_it_is_uploaded_is_refused(local, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"before")
    failpoints.arm(lambda name: path.write_bytes(b"after!") if name == "checkpoint.file.before_upload" else None)
    try:
        with pytest.raises(CheckpointError, match="its digest does not fit"):
            local.add_file(1, "x", path)
    finally:
        failpoints.arm(None)
    assert local.files.list("files") == []


@pytest.mark.parametrize("name", ["", "..", ".x", "a/b", "a b", "ä", "/etc", "x\0"])
def test_names_of_users_are_checked(local, name):
    with pytest.raises(OptionError, match="name of a file"):
        local.add_file(1, name, b"")
    with pytest.raises(OptionError, match="name of a job"):
        local.publish(manifest_of(1, job=name))
    for act in (lambda: local.save(name, manifest_of(1)), lambda: local.savepoint(name)):
        with pytest.raises(OptionError, match="name of a savepoint"):
            act()
    with pytest.raises(OptionError, match="name of a savepoint"):
        local.delete_savepoint(name)


def two_checkpoints():
    disk, repository = simulated()
    checkpoint(repository, 3)
    shared = set(paths(disk))
    checkpoint(repository, 4)
    return disk, sorted(set(paths(disk)) - shared)


@given(st.data())
def test_any_flipped_bit_of_the_newest_is_named_and_the_one_before_taken(data):
    disk, newest = two_checkpoints()
    path = data.draw(st.sampled_from(newest))
    disk.flip(path, data.draw(st.integers(0, disk.size(path) * 8 - 1)))
    expect_fallback(disk)


def test_any_flipped_byte_of_the_manifest():
    disk, _ = two_checkpoints()
    path = "checkpoints/0000000004.json"
    for position in range(disk.size(path)):
        bit = position * 8 + position % 8
        disk.flip(path, bit)
        expect_fallback(disk)
        disk.flip(path, bit)
    assert CheckpointRepository(SimulatedFiles(disk)).latest().skipped == ()


def test_the_manifest_cut_anywhere():
    disk, _ = two_checkpoints()
    path = "checkpoints/0000000004.json"
    for length in reversed(range(disk.size(path))):
        disk.truncate(path, length)
        expect_fallback(disk)


@given(st.data())
def test_a_file_cut_anywhere(data):
    disk, newest = two_checkpoints()
    path = data.draw(st.sampled_from([path for path in newest if path.startswith("files/")]))
    disk.truncate(path, data.draw(st.integers(0, disk.size(path) - 1)))
    expect_fallback(disk)


def expect_fallback(disk):
    repository = CheckpointRepository(SimulatedFiles(disk))
    loaded = repository.latest()
    assert is_whole(repository, loaded)
    assert loaded.manifest.epoch == 3
    assert [skipped.epoch for skipped in loaded.skipped] == [4]
    assert "damaged" in loaded.skipped[0].reason
    assert loaded.warning().startswith("CHECKPOINTS SKIPPED: the job goes back to epoch 3. Epoch 4: ")
    with pytest.raises(CheckpointError, match="damaged"):
        repository.load(4)


def test_the_reason_names_operator_and_file():
    disk, newest = two_checkpoints()
    disk.remove(next(path for path in newest if path.startswith("files/")))
    (skipped,) = CheckpointRepository(SimulatedFiles(disk)).latest().skipped
    assert "operator 'counts', instance 0: the file " in skipped.reason
    assert "is missing" in skipped.reason


def test_when_all_are_damaged_nothing_is_started_from_scratch():
    disk, repository = simulated()
    for epoch in (3, 4):
        checkpoint(repository, epoch)
    for path in paths(disk):
        disk.flip(path, 0)
    with pytest.raises(CheckpointError, match=r"no checkpoint can be restored. Epoch 4: .* Epoch 3: "):
        repository.latest()


def newest_damaged():
    """Return a disk with checkpoints 3 and 4, and the file of the newest that is damaged."""
    disk, repository = simulated()
    checkpoint(repository, 3)
    checkpoint(repository, 4)
    damaged = next(file for file in repository.load(4).manifest.instances[0].files if file.name == "4.sst")
    disk.flip(f"files/{damaged.digest}", 5)
    return disk, damaged


def test_a_damaged_file_is_uploaded_again_and_not_reused():
    disk, damaged = newest_damaged()
    restarted = CheckpointRepository(SimulatedFiles(disk))
    assert restarted.latest().manifest.epoch == 3
    assert restarted.retain(1).epochs == ()
    assert not restarted.reuse(5, damaged)
    assert restarted.add_file(5, "4.sst", content(4)["4.sst"]) == damaged
    assert restarted.publish(manifest_of(5, [damaged])).uploaded_files == 1
    assert restored(restarted, restarted.latest()) == {"4.sst": content(4)["4.sst"]}


def test_what_was_passed_over_is_not_restored_again_though_its_files_are_whole_again():
    """The job goes back from 4 to 3; its next checkpoint uploads the damaged file again, and is never published."""
    disk, _ = newest_damaged()
    restarted = CheckpointRepository(SimulatedFiles(disk))
    restarted.pass_over(restarted.latest().skipped)
    restarted.add_file(5, "4.sst", content(4)["4.sst"])
    later = CheckpointRepository(SimulatedFiles(disk))
    loaded = later.latest()
    assert loaded.manifest.epoch == 3 and "gone back behind it" in loaded.warning()
    assert later.epochs() == [3, 4] and later.newest().epoch == 4
    # Its state can be read.
    assert later.load(4).manifest.epoch == 4
    later.pass_over(loaded.skipped)
    # It does not count as one of those that are retained, and its mark goes with it.
    assert later.retain(1).epochs == ()
    checkpoint(later, 5)
    assert later.retain(1).epochs == (3, 4)
    assert [path for path in paths(disk) if path.startswith("checkpoints/")] == ["checkpoints/0000000005.json"]


def test_a_mark_whose_manifest_a_crash_has_let_go_is_swept():
    disk, repository = simulated()
    checkpoint(repository, 3)
    checkpoint(repository, 4)
    repository.pass_over([SkippedCheckpoint(4, "damaged")])
    disk.remove("checkpoints/0000000004.json")
    CheckpointRepository(SimulatedFiles(disk)).sweep()
    assert [path for path in paths(disk) if path.startswith("checkpoints/")] == ["checkpoints/0000000003.json"]


def test_a_fetch_checks_again(tmp_path):
    disk, repository = simulated()
    checkpoint(repository, 1)
    entry = repository.latest().manifest.instances[0].files[0]
    disk.flip(f"files/{entry.digest}", 3)
    with pytest.raises(CheckpointError, match=r"'base.sst' .* is damaged"):
        repository.contents().fetch(entry, tmp_path / "x")
    assert not (tmp_path / "x").exists()


@given(st.integers(0, 2**32 - 1))
def test_bits_that_flip_while_reading_never_get_through(seed):
    disk, repository = simulated(seed)
    checkpoint(repository, 3)
    checkpoint(repository, 4)
    disk.flip_rate = 0.2
    try:
        assert is_whole(repository, repository.latest())
    except CheckpointError as error:
        assert "damaged" in str(error)


def test_storage_that_fails_is_no_damage():
    class Failing(SimulatedFiles):
        def chunks(self, path):
            raise RetryableError("the network is gone.")

    disk, repository = simulated()
    checkpoint(repository, 1)
    with pytest.raises(RetryableError):
        CheckpointRepository(Failing(disk)).latest()


def test_a_manifest_under_another_name_and_strangers():
    disk, repository = simulated()
    checkpoint(repository, 1)
    files = SimulatedFiles(disk)
    files.write("checkpoints/0000000002.json", files.read("checkpoints/0000000001.json"))
    files.write("checkpoints/notes.txt", b"")
    files.write("checkpoints/00000000003.json", b"")
    assert repository.epochs() == [1, 2]
    assert repository.latest().skipped[0].reason == "the manifest is that of epoch 1."


def test_a_manifest_that_is_too_long_is_neither_read_nor_written():
    disk, repository = simulated()
    checkpoint(repository, 1)
    small = CheckpointRepository(SimulatedFiles(disk), manifest_bytes_limit=100)
    with pytest.raises(CheckpointError, match="the manifest is longer than 100 bytes"):
        small.load(1)
    with pytest.raises(CheckpointError, match="more than 100: use fewer"):
        small.publish(manifest_of(2))
