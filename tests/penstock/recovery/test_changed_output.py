"""Output of a job that was deleted or damaged between two of its lives: noticed at the start, with the ways out."""

from collections.abc import Callable
from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.connectors.files.output_check import changed_files
from penstock.engine.connectors.files.staged_files import StagedFile
from tests.penstock.recovery.stateful_pipelines import deduplicate_arrival
from tests.penstock.recovery.stopped_jobs import finished, stopped, written


def _damage(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])


CHANGES: dict[str, Callable[[Path], None]] = {
    "is gone": Path.unlink,
    "bytes where": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "holds other bytes than were written": _damage,
}


def _only_part(folder: Path) -> Path:
    (part,) = (folder / "out").glob("part-*")
    return part


@pytest.mark.parametrize("says", CHANGES)
def test_changed_output_is_refused_unless_it_is_accepted(says: str, tmp_path: Path) -> None:
    stopped(deduplicate_arrival, tmp_path)
    part = _only_part(tmp_path)
    CHANGES[says](part)
    left = written(tmp_path) if says == "is gone" else None
    for _ in range(2):
        with pytest.raises(ps.FatalError, match=f"1 of 1 files .*'{part.name}' .*{says}") as refusal:
            finished(deduplicate_arrival, tmp_path)
        assert "accept_changed='out' (--accept-changed out)" in str(refusal.value)
    stopped(deduplicate_arrival, tmp_path, accept_changed="out")
    # What was accepted once is not asked about again.
    stopped(deduplicate_arrival, tmp_path)
    if left is not None:
        assert written(tmp_path) == left


def test_output_that_was_brought_back_is_as_it_was(tmp_path: Path) -> None:
    stopped(deduplicate_arrival, tmp_path / "restored")
    part = _only_part(tmp_path / "restored")
    content = part.read_bytes()
    part.unlink()
    with pytest.raises(ps.FatalError, match="is gone"):
        finished(deduplicate_arrival, tmp_path / "restored")
    part.write_bytes(content)
    whole = finished(deduplicate_arrival, tmp_path / "whole")
    assert finished(deduplicate_arrival, tmp_path / "restored") == whole


def test_accepted_output_of_a_life_without_a_checkpoint_is_remembered(tmp_path: Path) -> None:
    def failing(left: ps.Stream, right: ps.Stream) -> ps.Stream:
        def fail(row: dict[str, object]) -> dict[str, object]:
            raise ValueError("a row that fails")

        return deduplicate_arrival(left.map(fail, on_error="fail"), right)

    stopped(deduplicate_arrival, tmp_path)
    _only_part(tmp_path).unlink()
    with pytest.raises(ps.UserError, match="a row that fails"):
        finished(failing, tmp_path, accept_changed="out")
    finished(deduplicate_arrival, tmp_path)


def test_only_the_newest_output_is_read(tmp_path: Path) -> None:
    files = []
    for epoch in range(1, 6):
        file = StagedFile(tmp_path, 0, ".jsonl")
        file.stream.write(b"0123456789")
        files.append(file.stage(epoch, 1))
    assert changed_files(tmp_path, files) == ()
    for file in files:
        _damage(tmp_path / file.name)
    found = changed_files(tmp_path, files, digested_bytes=25)
    assert [item.file.epoch for item in found] == [4, 5]
    (tmp_path / files[0].name).unlink()
    found = changed_files(tmp_path, files, digested_bytes=0)
    assert [str(item) for item in found] == [f"{files[0].name!r} is gone"]
