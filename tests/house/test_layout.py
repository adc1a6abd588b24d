"""The layout: links, package mapping, guards at the layers' doors, file sizes."""

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("model", "state", "shedding", "scheduler", "engine", "replay", "benchmarks")
LONGEST_FILE_LINES = 400

ONLY_IN_A_CHECKOUT = tuple(f"penstock.benchmarks.{name}" for name in ("papers", "peers"))
"""Packages that no installation has; `test_wheel` looks."""


def config() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def python_files() -> list[Path]:
    folders = [ROOT / name for name in (*LAYERS, "tests", "examples")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    return files + list((ROOT / "penstock").rglob("*.py"))


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_is_linked_into_the_package(layer: str) -> None:
    link = ROOT / "penstock" / layer
    assert link.is_symlink()
    assert link.readlink() == Path("..") / layer
    assert (link / "__init__.py").is_file()


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_refuses_its_short_name(layer: str) -> None:
    ran = subprocess.run([sys.executable, "-c", f"import {layer}"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 1
    assert f"import it as 'penstock.{layer}'" in ran.stderr


def test_the_mapping_names_every_layer() -> None:
    mapping = dict(line.replace(" ", "").split("=") for line in config()["options"]["package_dir"].strip().splitlines())
    assert mapping == {"penstock": "penstock", **{f"penstock.{layer}": layer for layer in LAYERS}}


def test_the_packages_are_those_of_the_tree() -> None:
    listed = set(config()["options"]["packages"].split())
    found = {"penstock"}
    for layer in LAYERS:
        for init in (ROOT / layer).rglob("__init__.py"):
            found.add("penstock." + ".".join(init.parent.relative_to(ROOT).parts))
    found |= {"penstock." + ".".join(p.parent.relative_to(ROOT / "penstock").parts)
              for p in (ROOT / "penstock").glob("*/__init__.py") if not p.parent.is_symlink()}  # fmt: skip
    assert listed == {name for name in found if not name.startswith(ONLY_IN_A_CHECKOUT)}


def test_files_hold_one_idea() -> None:
    too_long = {}
    for path in python_files():
        name, lines = path.relative_to(ROOT), len(path.read_text().splitlines())
        if lines > LONGEST_FILE_LINES:
            too_long[str(name)] = lines
    assert too_long == {}


def test_every_module_says_what_it_is() -> None:
    import ast

    silent = [
        str(path.relative_to(ROOT))
        for path in python_files()
        if "tests" not in path.parts
        and path.name != "conftest.py"
        and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_the_changelog_is_sorted_by_kinds_of_change() -> None:
    kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    _, *versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert versions[0].startswith("Unreleased")
    for version in versions:
        outside, *sections = re.split(r"^### ", version, flags=re.MULTILINE)
        named = [section.split("\n", 1)[0] for section in sections]
        assert "\n- " not in outside
        assert named == [kind for kind in kinds if kind in named]
