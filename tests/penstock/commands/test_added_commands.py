"""Commands that installed packages add: their arguments, their help, and what is said where they cannot be loaded."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import penstock

ROOT = Path(penstock.__file__).parent.parent

GREET = '''
"""Greets. At length."""

import typer

from penstock.commands.arguments import Arguments


def greet(arguments: Arguments = None, loud: bool = typer.Option(False, "--loud", help="Shout.")) -> None:
    """Greet everybody
    who is there.

    One after the other.
    """
    print(loud, arguments)
    raise typer.Exit(5)
'''
ZOO = '''
"""Keeps animals."""

import typer

app = typer.Typer(help="Look after animals.")


@app.command()
def feed(animal: str) -> None:
    """Feed an animal."""
    print("fed", animal)


@app.command()
def wash(animal: str) -> None:
    """Wash an animal."""
'''

Added = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def added(tmp_path: Path) -> Added:
    """Call ``penstock`` beside a package with these entry points and files."""

    def call(*arguments: str, entries: Mapping[str, str], files: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        info, package = tmp_path / "greeter-1.0.dist-info", tmp_path / "greeter"
        for folder in (info, package):
            folder.mkdir(exist_ok=True)
        lines = [f"{name} = {target}\n" for name, target in entries.items()]
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[penstock.commands]\n" + "".join(lines))
        (package / "__init__.py").write_text("")
        for name, text in files.items():
            (package / name).write_text(text)
        return run(*arguments, path=tmp_path)

    return call


def run(*arguments: str, path: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{path}", "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        capture_output=True,
        text=True,
        cwd=path,
        env=environment,
        timeout=60,
    )


def test_an_added_command_has_its_arguments_its_help_and_its_exit_code(added: Added) -> None:
    package = {"entries": {"greet": "greeter.command:greet"}, "files": {"command.py": GREET}}
    done = added("greet", "--loud", "you", "--", "--help", **package)
    assert (done.returncode, done.stdout) == (5, "True ['you', '--help']\n"), done.stderr
    assert added("--debug", "greet", **package).stdout == "False None\n"
    listed = added("--help", **package).stdout
    assert "greet" in listed and "Greet everybody who is there." in listed and "One after" not in listed
    helped = added("greet", "--help", **package).stdout
    assert "One after the other." in helped and "--loud" in helped and "Shout." in helped
    assert "greet" in added("gret", **package).stderr


def test_an_added_command_may_be_a_group(added: Added) -> None:
    package = {"entries": {"zoo": "greeter.zoo:app"}, "files": {"zoo.py": ZOO}}
    assert added("zoo", "feed", "lion", **package).stdout == "fed lion\n"
    assert "Keeps animals." in added("--help", **package).stdout


def test_help_imports_no_added_command(added: Added) -> None:
    package = {"entries": {"greet": "greeter.command:greet"}, "files": {"command.py": f"{GREET}\nraise SystemExit(9)"}}
    assert added("--help", **package).returncode == 0
    assert added("greet", **package).returncode == 9


def test_a_command_whose_module_is_missing_says_what_to_do(added: Added) -> None:
    done = added("greet", entries={"greet": "greeter.gone:greet"}, files={})
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr == (
        "error: the command 'greet' of the package 'greeter' needs its module greeter.gone, which is not there: "
        "install greeter anew, or uninstall it\n"
    )


def test_a_library_that_is_missing_is_named(added: Added) -> None:
    text = "import pyspark_that_is_not_there\n"
    done = added("greet", entries={"greet": "greeter.command:greet"}, files={"command.py": text})
    assert done.returncode == 1 and "pyspark_that_is_not_there" in done.stderr


def test_papers_outside_a_checkout_says_so(tmp_path: Path) -> None:
    """An installation from a wheel has no evaluations; the entry point is there all the same."""
    site = tmp_path / "site"
    site.mkdir()
    layers = ("model", "state", "shedding", "scheduler", "engine", "replay", "benchmarks")
    shutil.copytree(ROOT / "penstock", site / "penstock", symlinks=True, ignore=shutil.ignore_patterns(*layers))
    for layer in layers[:-1]:
        (site / "penstock" / layer).symlink_to(ROOT / layer)
    (site / "penstock" / "benchmarks").mkdir()
    for part in ("__init__.py", "nexmark"):
        (site / "penstock" / "benchmarks" / part).symlink_to(ROOT / "benchmarks" / part)
    info = site / "penstock-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(
        "[penstock.commands]\npapers = penstock.benchmarks.papers.command:command\n"
        "nexmark = penstock.benchmarks.nexmark.command:command\n"
    )
    done = run("papers", "sage", path=tmp_path, root=site)
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.startswith("error: penstock papers is not part of this installation")
    assert "it runs in a checkout of Penstock's source code" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    listed = run("--help", path=tmp_path, root=site).stdout
    assert "Not part of this installation." in listed and "Run the Nexmark queries" in listed
    assert run("nexmark", "--help", path=tmp_path, root=site).returncode == 0
