"""An unusable checkpoint directory is told of before a job begins, with its path, the cause and what to do."""

import errno
from pathlib import Path

import pytest

from penstock.model.errors import UserError
from penstock.state.checkpoints.storage_probe import clear_probes, probe
from penstock.state.files.disk_files import Disk, DiskFiles
from penstock.state.files.durable_files import Content
from penstock.state.files.local_files import LocalFiles, _LocalDisk


class Failing(DiskFiles):
    """A local folder whose disk raises when a file is made."""

    def __init__(self, base: Path, code: int) -> None:
        disk: Disk = _LocalDisk(base)

        def create(folder: str, name: str) -> None:
            raise OSError(code, errno.errorcode[code])

        disk.create = create  # type: ignore[method-assign, assignment]
        super().__init__(disk, str(base))


def refusal(files: DiskFiles) -> str:
    with pytest.raises(UserError) as raised:
        probe(files, "checkpoints/job", "name")
    assert "the checkpoint directory 'checkpoints/job' cannot be used: " in str(raised.value)
    return str(raised.value)


def test_a_directory_that_can_be_used_is_left_as_it_was(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path / "made")
    probe(files, "checkpoints/job", "name")
    assert sorted(path.name for path in (tmp_path / "made").rglob("*")) == ["checkpoints", "files"]


@pytest.mark.parametrize("name", ["", "checkpoints", "files"])
def test_a_file_where_a_directory_must_be(tmp_path: Path, name: str) -> None:
    base = tmp_path / "base"
    if name:
        base.mkdir()
    (base / name).touch()
    text = refusal(LocalFiles(base))
    assert "a file stands where a directory must be" in text and "move it away" in text


def test_a_directory_that_cannot_be_made() -> None:
    assert "give another checkpoint_dir" in refusal(LocalFiles("/proc/penstock"))


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "make room there"),
        (errno.EDQUOT, "make room there"),
        (errno.EROFS, "let this user write there"),
        (errno.EACCES, "let this user write there"),
        (errno.EIO, "check that it is there and may be written"),
    ],
)
def test_a_disk_that_is_full_or_may_not_be_written(tmp_path: Path, code: int, remedy: str) -> None:
    assert remedy in refusal(Failing(tmp_path, code))


def test_a_disk_that_forgets_what_was_written(tmp_path: Path) -> None:
    class Forgetful(LocalFiles):
        def write(self, path: str, content: Content) -> int:
            return super().write(path, b"")

    assert "is read back as 0 others" in refusal(Forgetful(tmp_path))


def test_what_a_crash_left_of_a_probe_goes_and_nothing_else(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    for path in ("files/probe-old", "checkpoints/probe-old", "checkpoints/0000000001.json"):
        files.write(path, b"x")
    clear_probes(files)
    assert (files.list("files"), files.list("checkpoints")) == ([], ["0000000001.json"])
