"""Shell completion: what a shell asks ``penstock`` for, and that it installs itself into the shell's files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(penstock.__file__).parent.parent


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Make a program ``penstock``, as an installation has it."""
    file = tmp_path / "bin" / "penstock"
    file.parent.mkdir()
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m penstock "$@"\n')
    file.chmod(0o755)
    return file


def environment(program: Path, **more: str) -> dict[str, str]:
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(program.parents[1]), **more}


def bash(program: Path, line: str) -> list[str]:
    """Return what Bash is told for the last word of a line."""
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_PENSTOCK_COMPLETE": "complete_bash"}
    ran = subprocess.run(
        [program], env=environment(program, **asked), capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("penstock val", {"validate"}),
        ("penstock s", {"savepoint", "scale", "simulate", "state", "status", "stop", "submit"}),
        ("penstock state ", {"ls", "show", "query"}),
        ("penstock run --checkpoint-", {"--checkpoint-dir", "--checkpoint-interval"}),
        ("penstock run pipeline.py --at-end ", {"keep", "close"}),
        ("penstock validate pipeline.py --spark", {"--spark-setting"}),
        ("penstock papers ", {"dissp", "economics", "flink_er", "justin", "sage"}),
        ("penstock replay pipeline.py --format ", {"parquet", "json"}),
        ("penstock decide log.jsonl --policy sage", {"sage", "sage-at-once"}),
        ("penstock run ", set()),
    ],
)
def test_bash_is_told_commands_options_and_values(program: Path, line: str, expected: set[str]) -> None:
    """Where nothing is told, Bash completes names of files."""
    assert set(bash(program, line)) == expected


@pytest.mark.parametrize(
    ("shell", "sign"), [("zsh", '"validate":"Recompute on Spark'), ("fish", "validate\tRecompute")]
)
def test_other_shells_are_told_the_help_too(program: Path, shell: str, sign: str) -> None:
    asked = {"_TYPER_COMPLETE_ARGS": "penstock val", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    asked["_PENSTOCK_COMPLETE"] = f"complete_{shell}"
    ran = subprocess.run(
        [program], env=environment(program, **asked), capture_output=True, text=True, timeout=60, check=True
    )
    assert sign in ran.stdout and ran.stderr == ""


def test_a_command_that_cannot_be_loaded_has_no_completions_and_no_message(program: Path, tmp_path: Path) -> None:
    info = tmp_path / "greeter-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penstock.commands]\ngreet = greeter.gone:greet\n")
    program.write_text(program.read_text().replace("exec", f"PYTHONPATH={ROOT}:{tmp_path} exec"))
    assert bash(program, "penstock gre") == ["greet"]
    assert bash(program, "penstock greet --lo") == []


def test_completion_installs_itself_and_works_in_bash(program: Path) -> None:
    """The program looks at its parents to know the shell; what it writes, Bash reads at its next start."""
    script = (
        "penstock --install-completion || exit 1\n"
        ". ~/.bashrc\n"
        "COMP_WORDS=(penstock validate --spark-) COMP_CWORD=2\n"
        '_penstock_completion penstock; echo "got ${COMPREPLY[*]}"\n'
    )
    ran = subprocess.run(
        ["bash", "-c", script], env=environment(program), capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "bash completion installed in" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "got --spark-setting"
