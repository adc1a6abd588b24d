"""The token that a job makes for its own user: where it lies, who may read it, and that it goes with the job."""

import os
import stat
from pathlib import Path

import pytest

from penstock.runs.own_token import OwnToken, own_token, token_folder

PORT = 9_464


def test_a_token_is_found_by_its_port_once_it_is_published_and_until_it_is_deleted(tmp_path: Path) -> None:
    token = OwnToken.make(tmp_path)
    assert own_token(PORT, tmp_path) is None
    token.publish(PORT)
    assert own_token(PORT, tmp_path) == token.value
    assert own_token(PORT + 1, tmp_path) is None
    token.delete()
    assert own_token(PORT, tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_only_the_user_may_read_it_from_its_first_moment_on(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    token = OwnToken.make(folder)
    for published in (False, True):
        if published:
            token.publish(PORT)
        assert [stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()] == [0o600]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_no_two_jobs_have_the_same_token(tmp_path: Path) -> None:
    assert OwnToken.make(tmp_path).value != OwnToken.make(tmp_path).value


def test_that_of_a_job_that_was_killed_is_replaced_and_a_later_one_is_not_deleted(tmp_path: Path) -> None:
    killed, later = OwnToken.make(tmp_path), OwnToken.make(tmp_path)
    killed.publish(PORT)
    later.publish(PORT)
    assert own_token(PORT, tmp_path) == later.value
    killed.delete()
    assert own_token(PORT, tmp_path) == later.value


def test_a_file_that_others_may_read_is_not_believed(tmp_path: Path) -> None:
    OwnToken.make(tmp_path).publish(PORT)
    next(tmp_path.iterdir()).chmod(0o644)
    assert own_token(PORT, tmp_path) is None


def test_it_lies_in_the_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somebody")
    assert token_folder({}) == Path("/somebody/.local/state/penstock/tokens")
    assert token_folder({"XDG_STATE_HOME": "/state"}) == Path("/state/penstock/tokens")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=f"{os.sep}file"):
        OwnToken.make(tmp_path / "file" / "tokens")
