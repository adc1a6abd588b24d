"""Pipelines that are submitted to a Ray cluster, with their folder, arguments and exit codes."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.contracts.executors.metered import until

pytestmark = [
    pytest.mark.long("a cluster with Ray's dashboard; test_run_command.py has the command that it carries out"),
    pytest.mark.xdist_group("ray"),
]

PROGRAM = """
import os
import sys
from pathlib import Path
import pyarrow as pa
import penstock as ps
from engine import WORD as ENGINE
from model import WORD as MODEL
from state import WORD as STATE

def rows():
    for number in range(int(sys.argv[2])):
        yield {"number": 1 // number if sys.argv[3:] == ["fail"] else number, "word": STATE + ENGINE + MODEL}
    while sys.argv[3:] == ["wait"]:
        yield None

def staged(row):
    return {"number": row["number"], "word": row["word"] + os.environ["STAGE"]}

fields = pa.schema([("number", pa.int64()), ("word", pa.string())])
ps.read_iterable(rows, schema=fields).name("rows").map(staged, schema=fields).name("staged").write_json(sys.argv[1])
ps.run(name="submitted")
"""


@pytest.fixture
def dashboard() -> Iterator[str]:
    """Return the address of the dashboard of a cluster that has jobs submitted to it, beside others of this host."""
    # A job of Ray finds its cluster by a file in the folder of all clusters of a machine, where the newest stands.
    own = tempfile.mkdtemp(prefix="ray-")
    with _cluster({**os.environ, "RAY_TMPDIR": own}) as port:
        yield f"http://127.0.0.1:{port}"
    shutil.rmtree(own)


@contextmanager
def _cluster(environment: Mapping[str, str]) -> Iterator[int]:
    """Return the port of the dashboard of a cluster that ``ray start`` has begun."""
    port, *others = _free_ports(4)
    scripts = Path(sys.executable).parent
    command = [str(scripts / "ray"), "start", "--head", "--block", "--num-cpus=2", f"--object-store-memory={80 << 20}"]
    command += ["--include-dashboard=true", f"--dashboard-port={port}", "--disable-usage-stats"]
    names = ("--dashboard-agent-listen-port", "--port", "--ray-client-server-port")
    command += [f"{name}={other}" for name, other in zip(names, others, strict=True)]
    own = {**environment, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    cluster = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=own, start_new_session=True)
    try:
        until(lambda: _answers(port) and _answers(others[0]))
        yield port
    finally:
        cluster.terminate()
        cluster.wait(60)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as taken:
        servers = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in servers]


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program, and with folders of its own that have names of ours."""
    folder = tmp_path / "program"
    for name in ("state", "engine", "model"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"WORD = '{name} '\n")
    (folder / "pipeline.py").write_text(PROGRAM)
    (folder / ".venv").mkdir()
    with (folder / ".venv" / "too large").open("wb") as large:
        large.truncate(1 << 30)
    return folder


def rows_of(out: Path) -> list[Mapping[str, object]]:
    return [json.loads(line) for file in out.glob("*.jsonl") for line in file.read_text().splitlines()]


def test_a_pipeline_with_folders_of_our_names_is_submitted_and_exit_codes_are_right(
    dashboard: str, folder: Path, tmp_path: Path
) -> None:
    submit = [sys.executable, "-m", "penstock", "submit", "--address", dashboard, "--task-managers", "1"]
    out, other, waiting = tmp_path / "ours", tmp_path / "plain", tmp_path / "waiting"
    mine = [*submit, "--env", "STAGE=here, and there", str(folder / "pipeline.py"), "--", str(out), "10"]
    subprocess.run(mine, check=True, timeout=200)
    environment = json.dumps({"excludes": [".venv"], "env_vars": {"STAGE": "here, and there"}})
    plain = [str(Path(sys.executable).parent / "ray"), "job", "submit", "--address", dashboard, "--working-dir", "."]
    plain += ["--runtime-env-json", environment]
    run = ["--", "penstock", "run", "pipeline.py", "--executor", "ray", "--task-managers", "1", "--name", "plain", "--"]
    subprocess.run([*plain, *run, str(other), "10"], cwd=folder, check=True, timeout=200)
    word = "state engine model here, and there"
    assert rows_of(other) == [{"number": number, "word": word} for number in range(10)]
    until(lambda: rows_of(out) == rows_of(other))
    failed = subprocess.run([*plain, *run, str(other), "10", "fail"], cwd=folder, check=False, timeout=200)
    assert failed.returncode == 1
    stopped = subprocess.Popen(
        [*plain, *run, str(waiting), "10", "wait"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert stopped.stdout is not None
    # Whoever follows the job hears that its head is there.
    assert any("penstock status plain" in line for line in stopped.stdout)
    stop = [*plain, "--", "penstock", "stop", "plain"]
    subprocess.run(stop, cwd=folder, check=True, timeout=200)
    assert "succeeded" in stopped.communicate(timeout=200)[0]
    assert stopped.returncode == 0
    assert len(rows_of(waiting)) == 10


def test_the_token_of_this_machine_is_found_and_a_cluster_whose_token_is_another_says_so(
    folder: Path, tmp_path: Path
) -> None:
    """Where a token lies in the home folder, ``ray start`` lets in only who has it."""
    out, home = tmp_path / "out", tmp_path / "home"
    own = tempfile.mkdtemp(prefix="ray-")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment = {**plain, "RAY_TMPDIR": own, "HOME": str(home)}
    token = home / ".ray" / "auth_token"
    token.parent.mkdir(parents=True)
    token.write_text("a" * 64)
    submit = [sys.executable, "-m", "penstock", "submit", "--task-managers", "1", "--env", "STAGE=here"]
    submit += [str(folder / "pipeline.py"), "--", str(out), "10"]
    with _cluster(environment):
        subprocess.run(submit, check=True, timeout=200, env=environment)
        until(lambda: len(rows_of(out)) == 10)
        token.write_text("b" * 64)
        refused = subprocess.run(submit, timeout=200, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "lets in only who has its token: set RAY_AUTH_MODE=token" in refused.stderr
    shutil.rmtree(own)
