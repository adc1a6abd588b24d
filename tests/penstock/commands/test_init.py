"""``penstock init`` writes a project whose README is true."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.commands.cli import main

ROOT = Path(__file__).resolve().parents[3]


def init(name: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["init", name])
    return int(end.value.code or 0)


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


def test_a_new_project_runs_explains_itself_and_passes_its_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert init("tea shops") == 0
    said = capsys.readouterr().out
    folder = tmp_path / "tea shops"
    readme = (folder / "README.md").read_text()
    commands, output = re.findall(r"```\n(.*?)```", readme, re.DOTALL)
    assert [line.strip() for line in said.splitlines()[-3:]] == commands.splitlines()
    written = sorted(path.relative_to(tmp_path).as_posix() for path in folder.rglob("*") if path.is_file())
    assert written == sorted(line.strip() for line in said.splitlines() if line.startswith("  tea shops"))
    assert "cd 'tea shops'" in said

    ran = run("penstock", "run", "pipeline.py", folder=folder)
    assert ran.stdout == output
    assert "tea-shops" in ran.stderr
    header, late = (folder / "late_orders.csv").read_text().splitlines()
    assert "09:08:15" in late and "quantity" in header
    assert "revenue  group by shop" in run("penstock", "explain", "pipeline.py", folder=folder).stdout
    assert "3 passed" in run("pytest", "-q", "-p", "no:cacheprovider", folder=folder).stdout
    assert not [
        path for path in folder.rglob("*") if path.is_file() and "my-pipeline" in path.read_text("utf-8", "replace")
    ]


def test_what_is_there_already_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert init("mine") == 0
    (tmp_path / "mine" / "pipeline.py").write_text("# edited\n")
    assert init("mine") == 1
    assert capsys.readouterr().err == "error: the directory mine is not empty; give the name of a new one\n"
    assert (tmp_path / "mine" / "pipeline.py").read_text() == "# edited\n"
    (tmp_path / "file").write_text("")
    assert init("file") == 1
    assert capsys.readouterr().err == "error: file is a file; give the name of a new directory\n"


def test_its_files_are_in_the_wheel() -> None:
    """Every file is named by a pattern of the package data."""
    import configparser
    from fnmatch import fnmatch

    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    patterns = config["options.package_data"]["penstock"].split()
    found = [path for path in (ROOT / "penstock" / "project").rglob("*") if path.is_file()]
    names = [path.relative_to(ROOT / "penstock").as_posix() for path in found if "__pycache__" not in path.parts]
    assert len(names) == 5
    assert [name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)] == []


def test_the_requirements_name_where_penstock_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert init("mine") == 0
    assert (tmp_path / "mine" / "requirements.txt").read_text() == f"penstock @ {ROOT.as_uri()}\npytest\n"


def test_pip_can_read_the_requirements_of_a_copy_of_unknown_origin() -> None:
    from penstock.commands.new_project import requirements

    first, second = requirements("penstock\npytest\n", None).splitlines()
    assert first.startswith("# Penstock is on no package index") and second == "pytest"
