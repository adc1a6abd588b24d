"""Task managers in mount namespaces of their own, as on other hosts: where they see other files the job is refused."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.model.errors import UserError
from tests.contracts.executors.ways import PROCESSES
from tests.long_cases import but_for

pytestmark = pytest.mark.slow

ROWS = 1_000

SetApart = Callable[[str], None]
"""Lets task managers run what a shell does in their mount namespace first."""


@pytest.fixture
def set_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetApart:
    """Return what gives each task manager that is started from then on a mount namespace of its own."""
    own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    tried = subprocess.run([*own, "mount", "-t", "tmpfs", "none", tmp_path], capture_output=True, text=True)
    assert tried.returncode == 0, f"this machine gives nobody a mount namespace: {' '.join(own)}: {tried.stderr}"

    def set_apart(script: str) -> None:
        python = tmp_path / "python"
        inner = f'{script} && exec {shlex.quote(sys.executable)} "$@"'
        # Each exec keeps the process, whose parent the head is.
        python.write_text(f'#!/bin/sh\nexec {" ".join(own)} sh -c {shlex.quote(inner)} sh "$@"\n')
        python.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(python))

    return set_apart


def run(folder: Path) -> None:
    (folder / "in").mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": range(ROWS)}), folder / "in" / "rows.parquet")
    job = ps.Job()
    rows = ps.read_parquet(folder / "in", job=job).name("rows")
    rows.write_parquet(folder / "out").name("out")
    job.run("apart", directory=folder / "job", checkpoint_dir=folder / "checkpoints", **PROCESSES)


@pytest.mark.long("a start; test_file_checks.py has what is asked and answered")
def test_a_job_whose_task_managers_see_the_same_files_runs(tmp_path: Path, set_apart: SetApart) -> None:
    set_apart("true")
    run(tmp_path)
    assert sum(pq.read_metadata(file).num_rows for file in (tmp_path / "out").glob("*.parquet")) == ROWS


SAID = {
    "checkpoints": "the checkpoint directory '{folder}/checkpoints/apart' of the job is another one on the host",
    "out": "the output '{folder}/out' of the job is another one on the host",
    "in": "the input file '{folder}/in/rows.parquet' is not there on the host",
}


@pytest.mark.parametrize("name", but_for(SAID, ["out"], "a start each; that of the output stays"))
def test_a_job_is_refused_of_whose_local_paths_one_is_another_elsewhere(
    tmp_path: Path, set_apart: SetApart, name: str
) -> None:
    (tmp_path / name).mkdir(exist_ok=True)
    set_apart(f"mount -t tmpfs none {shlex.quote(str(tmp_path / name))}")
    with pytest.raises(UserError) as refused:
        run(tmp_path)
    text = str(refused.value)
    assert SAID[name].format(folder=tmp_path) in text
    assert os.uname().nodename in text and "s3://BUCKET/FOLDER" in text
    assert not list((tmp_path / "out").glob("*.parquet"))
