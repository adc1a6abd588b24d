"""``penstock status``, ``stop`` and ``savepoint`` on a real job: what they do, print and exit with."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.commands.running_job import client_of
from penstock.dsl.handle import Handle
from penstock.runs.own_token import OwnToken, token_folder
from penstock.state.checkpoints.repository import CheckpointRepository
from tests.command_line import penstock
from tests.penstock.http_api.served_jobs import ACTION_TOKEN
from tests.penstock.recovery.checkpoint_jobs import LONG_S, running

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def token(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(ACTION_TOKEN)
    return f"file:{file}"


@pytest.fixture
def handle(tmp_path: Path, token: str) -> Iterator[Handle]:
    with running(tmp_path, metrics_port=0, action_token=token) as handle:
        yield handle


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: object) -> tuple[int, str, str]:
        # What the job beside it has said is not the command's.
        capfd.readouterr()
        code = penstock(*arguments)
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    return call


def test_the_status_of_a_job(handle: Handle, command: Command) -> None:
    code, out, err = command("status", handle.metrics_url)
    assert (code, err) == (0, "")
    for said in ("items", "running", "none yet", "with the action token"):
        assert said in out, out
    code, out, _ = command("status", handle.metrics_url, "--json")
    assert (code, json.loads(out)["source_rows"]) == (0, 6)


def test_a_savepoint_is_there_when_the_command_ends(
    handle: Handle, token: str, command: Command, tmp_path: Path
) -> None:
    ask = "savepoint", handle.metrics_url, "friday", "--action-token", token
    assert command(*ask)[:2] == (0, "savepoint 'friday' of items is there: checkpoint 1\n")
    assert ps.read_checkpoint(f"{tmp_path / 'checkpoints'}#friday").epoch == 1
    code, _, err = command(*ask)
    assert code == 1 and "there is a savepoint 'friday' already" in err
    code, out, _ = command("savepoint", handle.metrics_url, "saturday", "--action-token", token, "--json")
    assert (code, json.loads(out)) == (0, {"job": "items", "savepoint": "saturday", "epoch": 2})


@pytest.mark.parametrize("drain", [[], ["--drain"]])
def test_a_job_has_ended_when_the_command_has(
    handle: Handle, token: str, command: Command, tmp_path: Path, drain: list[str]
) -> None:
    code, out, _ = command(
        "stop", handle.metrics_url, *drain, "--savepoint", "friday", "--action-token", token, "--json"
    )
    end = json.loads(out)
    assert code == 0
    assert (end["job"], end["state"], end["savepoint"], end["error"]) == ("items", "finished", "friday", None)
    handle.wait(LONG_S)
    assert ps.read_checkpoint(f"{tmp_path / 'checkpoints'}#friday").epoch == end["epoch"]


def test_a_stop_that_the_job_fails_in_exits_with_1(
    tmp_path: Path, token: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise ps.BugError("nothing can be published")

    with pytest.raises(ps.PenstockError), running(tmp_path, metrics_port=0, action_token=token) as handle:
        monkeypatch.setattr(CheckpointRepository, "publish", fail)
        code, out, err = command("stop", handle.metrics_url, "--action-token", token)
        assert (code, out) == (1, "") and "items has failed: " in err and "nothing can be published" in err
        handle.wait(LONG_S)


def test_without_the_token_nothing_happens(handle: Handle, command: Command) -> None:
    code, out, err = command("stop", handle.metrics_url)
    assert (code, out) == (1, "") and "wants a token" in err
    assert handle.running


def test_the_user_of_a_job_needs_no_token_of_his_own_on_its_machine(tmp_path: Path, command: Command) -> None:
    folder = token_folder(os.environ)
    others = set(folder.iterdir()) if folder.exists() else set()
    with running(tmp_path, metrics_port=0) as handle:
        assert len(set(folder.iterdir()) - others) == 1
        code, out, _ = command("savepoint", handle.metrics_url, "friday")
        assert (code, out) == (0, "savepoint 'friday' of items is there: checkpoint 1\n")
        code, out, err = command("stop", handle.metrics_url)
        assert code == 0 and out.startswith("items has ended"), err
        handle.wait(LONG_S)
    assert set(folder.iterdir()) == others


def test_a_token_of_ones_own_is_sent_to_this_machine_alone() -> None:
    token = OwnToken.make()
    token.publish(9_464)
    assert client_of("http://127.0.0.1:9464", "action_token", None).address.token == token.value
    assert client_of("http://localhost:9464/metrics", "metrics_token", None).address.token == token.value
    assert client_of("http://10.0.0.5:9464", "action_token", None).address.token is None
    token.delete()
    assert client_of("http://127.0.0.1:9464", "action_token", None).address.token is None


def test_a_job_that_can_keep_no_token_says_so_and_is_read_only(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with running(tmp_path / "job", metrics_port=0) as handle:
        assert "NO ACTIONS: a token for actions cannot be kept" in capfd.readouterr().err
        code, _, err = command("stop", handle.metrics_url)
        assert code == 1 and "takes no actions" in err


def test_a_job_that_is_gone_is_said_to_be(handle: Handle, command: Command) -> None:
    handle.stop()
    for name in (["status"], ["stop"], ["savepoint", "friday"]):
        code, out, err = command(name[0], handle.metrics_url, *name[1:])
        assert (code, out) == (1, "") and "nothing answers at http://127.0.0.1" in err


def test_a_stop_is_waited_for_across_whatever_the_job_tells(handle: Handle, token: str, command: Command) -> None:
    asked = threading.Thread(target=handle.savepoint, args=("beside", LONG_S))
    asked.start()
    code, out, _ = command("stop", handle.metrics_url, "--action-token", token)
    asked.join()
    assert code == 0 and out.startswith("items has ended at checkpoint ")
