"""Durable files on a local disk and on the simulated one: what a crash may leave, and addresses."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from penstock.model import failpoints
from penstock.model.errors import OptionError, RetryableError
from penstock.state.files.arrow_files import ArrowFiles, open_files
from penstock.state.files.disk_files import is_unfinished
from penstock.state.files.local_files import LocalFiles
from penstock.state.files.simulated_files import SimulatedDisk, SimulatedFiles

SEEDS = st.integers(0, 2**32 - 1)


class Crash(BaseException):
    """The power went."""


@pytest.fixture
def disarmed():
    yield
    failpoints.arm(None)


def crash_at(count):
    """Fail at the count-th point that is passed."""
    passed = iter(range(count))

    def point(name):
        if next(passed, None) is None:
            raise Crash(name)

    failpoints.arm(point)


def simulated(seed=0, **faults):
    disk = SimulatedDisk(np.random.default_rng(seed), **faults)
    return disk, SimulatedFiles(disk)


def test_modes_and_nothing_left_beside(tmp_path):
    old = os.umask(0o022)
    try:
        LocalFiles(tmp_path / "new" / "base").write("a/b/x", b"1")
    finally:
        os.umask(old)
    for folder in ("new", "new/base", "new/base/a", "new/base/a/b"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "new/base/a/b").iterdir()] == ["x"]
    assert (tmp_path / "new/base/a/b/x").stat().st_mode & 0o777 == 0o600


def test_a_local_write_syncs_the_file_before_its_name_and_its_folders_first(tmp_path, monkeypatch):
    events = []
    real_sync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (events.append(f"sync {Path(f'/proc/self/fd/{fd}').readlink()}"), real_sync(fd))
    )
    monkeypatch.setattr(os, "replace", lambda *names: (events.append("rename"), real_replace(*names)))
    files = LocalFiles(tmp_path / "base")
    files.write("a/x", b"1")
    shown = [event.replace(str(tmp_path), "").split(".x.")[0] for event in events]
    assert shown == ["sync ", "sync /base", "sync /base/a/", "rename", "sync /base/a"]
    events.clear()
    files.write("a/y", b"1")
    assert len(events) == 3


@pytest.mark.usefixtures("disarmed")
def test_what_a_killed_write_left_is_not_listed_and_can_be_cleared(tmp_path):
    files = LocalFiles(tmp_path)
    files.write("a/x", b"old")
    crash_at(0)
    with pytest.raises(Crash, match=r"files\.write\.before_sync"):
        files.write("a/x", b"new")
    failpoints.arm(None)
    assert len(list((tmp_path / "a").iterdir())) == 2
    assert list(files.list("a")) == ["x"]
    assert files.read("a/x") == b"old"
    files.clear_unfinished("a")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["x"]


@pytest.mark.usefixtures("disarmed")
@given(SEEDS, st.integers(0, 9), st.binary(max_size=3000), st.binary(max_size=3000))
def test_a_crash_leaves_the_old_file_or_the_new_one(seed, points, old, new):
    disk, files = simulated(seed)
    files.write("a/b/x", old)
    crash_at(points)
    allowed = (new,)
    try:
        files.write("a/b/x", new)
    except Crash:
        allowed = (old, new)
    failpoints.arm(None)
    disk.crash()
    restarted = SimulatedFiles(disk)
    assert restarted.read("a/b/x") in allowed
    assert list(restarted.list("a/b")) == ["x"]


@given(SEEDS)
def test_what_is_deleted_stays_deleted(seed):
    disk, files = simulated(seed)
    files.write("a/x", b"1")
    files.write("b/x", b"1")
    files.delete("a/x")
    files.delete_folder("b")
    disk.crash()
    assert not files.exists("a/x")
    assert list(files.folders("")) == ["a"]


def test_a_folder_that_others_deleted_is_made_again(tmp_path):
    ours, theirs = LocalFiles(tmp_path), LocalFiles(tmp_path)
    ours.write("a/b/x", b"1")
    theirs.delete_folder("a")
    ours.write("a/b/x", b"2")
    assert theirs.read("a/b/x") == b"2"


def found_within(seeds, monkeypatch, target, name):
    """Return whether a crash after a completed write shows that a step is left out."""
    monkeypatch.setattr(target, name, lambda *arguments: None)
    for seed in range(seeds):
        disk, files = simulated(seed)
        files.write("a/x", b"x" * 2000)
        disk.crash()
        if not files.exists("a/x") or files.read("a/x") != b"x" * 2000:
            return True
    return False


def test_a_forgotten_sync_shows(monkeypatch):
    from penstock.state.files import simulated_files

    assert found_within(20, monkeypatch, simulated_files._OpenFile, "sync")


def test_a_forgotten_sync_of_the_folder_shows(monkeypatch):
    assert found_within(20, monkeypatch, SimulatedDisk, "sync_folder")


def test_nothing_shows_when_nothing_is_forgotten():
    for seed in range(50):
        disk, files = simulated(seed)
        files.write("a/x", b"x" * 2000)
        disk.crash()
        assert files.read("a/x") == b"x" * 2000


def test_one_seed_is_one_disk():
    def left(seed):
        disk, _ = simulated(seed)
        for number in range(20):
            _, file = disk.create("", f"f{number}.")
            file.write(bytes([number + 1]) * 4000)
        disk.crash()
        return {name: b"".join(disk.chunks(name)) for name in disk.names("")[0]}

    assert left(7) == left(7)
    assert left(7) != left(8)
    assert any(len(data) not in (0, 4000) or b"\0" in data for data in left(7).values())


def test_a_full_disk_fails_cleanly_and_recovers():
    disk, files = simulated(capacity_bytes=100)
    files.write("x", b"1" * 60)
    with pytest.raises(RetryableError, match=r"cannot write 'y' below 'the simulated disk': No space left"):
        files.write("y", iter([b"2" * 30, b"2" * 30]))
    assert list(files.list("")) == ["x"]
    assert disk.used_bytes() == 60
    disk.capacity_bytes = None
    files.write("y", b"2" * 60)
    assert files.read("x") == b"1" * 60


def test_reads_flip_a_bit_now_and_then():
    disk, files = simulated(flip_rate=0.5)
    files.write("x", bytes(100))
    counts = [sum(byte.bit_count() for byte in files.read("x")) for _ in range(200)]
    assert set(counts) == {0, 1}
    disk.flip_rate = 0.0
    assert files.read("x") == bytes(100)
    disk.flip("x", 9)
    assert files.read("x")[:2] == b"\0\2"
    disk.truncate("x", 1)
    assert files.read("x") == b"\0"


def test_a_local_disk_that_fails_is_retryable(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RetryableError, match="cannot write 'x' below"):
        LocalFiles(tmp_path / "file").write("x", b"1")
    files = LocalFiles(tmp_path)
    files.write("a/x", b"1")
    with pytest.raises(RetryableError, match="cannot read 'a'"):
        files.read("a")


def test_a_source_that_is_missing_is_not_the_storage(tmp_path):
    with pytest.raises(FileNotFoundError):
        LocalFiles(tmp_path).write("x", tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def test_addresses(tmp_path):
    for url in (str(tmp_path), f"file://{tmp_path}", f"file://localhost{tmp_path}"):
        found = open_files(url, "job")
        assert isinstance(found, LocalFiles)
        assert found.base == tmp_path / "job"
    found = open_files("s3://bucket/folder/?region=eu-west-1", "job")
    assert isinstance(found, ArrowFiles)
    assert found._base == "bucket/folder/job"
    assert not found._beside


@pytest.mark.parametrize(
    "url", ["ftp://me:secret@host/x", "s3://me:secret@", "file://host/x", "hdfs://me:secret@h:x/y"]
)
def test_addresses_that_cannot_be_used(url):
    with pytest.raises(OptionError) as raised:
        open_files(url)
    assert "secret" not in str(raised.value)
    with pytest.raises(OptionError, match="cannot be the name of a folder"):
        open_files("x", "..")


def test_which_files_are_unfinished():
    assert is_unfinished(".x.1.unfinished")
    assert not is_unfinished("x")


def test_arrow_files_leave_nothing_beside():
    filesystem, _ = fs.FileSystem.from_uri("mock://")
    files = ArrowFiles(filesystem, "base", object_store=False)
    files.write("a/x", b"1")
    filesystem.open_output_stream("base/a/.x.1.unfinished").close()
    assert list(files.list("a")) == ["x"]
    files.clear_unfinished("a")
    assert [info.base_name for info in filesystem.get_file_info(fs.FileSelector("base/a"))] == ["x"]


def test_local_files_travel_as_the_path_that_they_have(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = LocalFiles("base")
    files.write("a/x", b"1")
    data = pickle.dumps(files)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    there = pickle.loads(data)
    assert type(there) is LocalFiles and there.read("a/x") == b"1"
    there.write("a/y", b"2")
    assert (tmp_path / "base/a/y").read_bytes() == b"2"
    assert repr(there) == f"LocalFiles('{tmp_path}/base')"


def test_files_of_an_object_store_travel_as_their_address():
    url = "s3://name:topsecret@bucket/base?endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1"
    files = open_files(url, "job")
    there = pickle.loads(pickle.dumps(files))
    assert isinstance(there, ArrowFiles)
    assert repr(there) == repr(files) == "ArrowFiles('s3', 'bucket/base/job')"
    assert "topsecret" not in repr(files)
    assert there._filesystem is not files._filesystem and there._filesystem.equals(files._filesystem)


def test_credentials_that_were_found_here_do_not_travel(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "topsecret")
    data = pickle.dumps(open_files("s3://bucket/base?region=us-east-1", "job"))
    assert b"topsecret" not in data
    assert repr(pickle.loads(data)) == "ArrowFiles('s3', 'bucket/base/job')"


def test_files_of_a_file_system_of_pyarrows_travel_with_it(tmp_path):
    files = ArrowFiles(fs.LocalFileSystem(), str(tmp_path), object_store=False)
    files.write("x", b"1")
    assert pickle.loads(pickle.dumps(files)).read("x") == b"1"
