"""Output into a pipe whose reader goes, as ``head`` does: the program ends at once, without a word."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.model.errors import OutputClosedError
from tests.docs.pages import ROOT
from tests.long_cases import but_for

CLOSED = 141
PATIENCE_S = 120

PIPELINE = """
import penstock as ps

rows = ps.read_nexmark("bid", ps.NexmarkConfig(events=2_000_000), watermark="2s").name("bids")
rows.select("price").print().name("out")
ps.run("prices", batch_rows=1_000{more})
"""


def first_line(command: list[str], folder: Path) -> tuple[int, str, str]:
    """Run a command, read its first line and close the pipe; return exit code, line and standard error."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, *command], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as ran:
        assert ran.stdout is not None and ran.stderr is not None
        line = ran.stdout.readline()
        ran.stdout.close()
        errors = ran.stderr.read()
        return ran.wait(PATIENCE_S), line, errors


@pytest.mark.parametrize(
    "more",
    but_for(
        ["", ', checkpoint_dir="checkpoints", checkpoint_interval="50ms"'], [""], "with checkpoints, too; without stays"
    ),
)
@pytest.mark.parametrize("how", [[], ["-m", "penstock", "run"]])
def test_a_pipeline_that_prints_ends_when_nobody_reads(how: list[str], more: str, tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text(PIPELINE.format(more=more))
    code, line, errors = first_line([*how, "pipeline.py"], tmp_path)
    assert line.startswith("price=")
    assert code == CLOSED
    assert "Traceback" not in errors and "rror" not in errors and "RESTARTED" not in errors


def test_a_command_that_prints_much_ends_when_nobody_reads(tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text(PIPELINE.format(more=""))
    for command in (["explain", "pipeline.py"], ["run", "--help"]):
        code, line, errors = first_line(["-m", "penstock", *command], tmp_path)
        assert line and code in (0, CLOSED) and errors == ""


def test_a_program_may_go_on_without_its_reader() -> None:
    readable, writable = os.pipe()
    os.close(readable)
    with os.fdopen(writable, "w") as file:
        job = ps.Job()
        ps.read_memory([{"a": 1}], job=job).print(file=file)
        with pytest.raises(OutputClosedError) as ended:
            job.run("gone")
        assert isinstance(ended.value, ps.UserError) and ended.value.code == CLOSED
