"""PAPERS.md tells where each equation is, what runs it, and what holds it: all of it is there, and so."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from penstock.benchmarks.papers.command import NAMES
from penstock.engine.control.policies import POLICIES
from tests.house.reached_code import reached

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(
    r"^\| (?P<paper>[^|]+) \| (?P<what>[^|]+) \| `(?P<code>[\w.]+)` \| (?P<by>policies|evaluation|sources|nothing) "
    r"\| `(?P<file>[\w/]+\.py)::(?P<test>\w+)` \|$"
)


def rows() -> list[re.Match[str]]:
    lines = (ROOT / "PAPERS.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")][2:]
    found = [ROW.match(line) for line in table]
    assert [line for line, row in zip(table, found, strict=True) if row is None] == []
    return [row for row in found if row is not None]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['paper']}: {row['what']}")
def test_every_row_leads_to_code_and_to_a_test(row: re.Match[str]) -> None:
    module, _, name = row["code"].rpartition(".")
    assert hasattr(importlib.import_module(module), name)
    tree = ast.parse((ROOT / row["file"]).read_text())
    assert row["test"] in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@cache
def run_by() -> tuple[frozenset[str], frozenset[str]]:
    """Return what policies with a name lead to, with what their head prepares for them, and what evaluations do."""
    prepared = "penstock.scheduler.place_hints.hinted"
    policies = reached([prepared, *(name.replace(":", ".") for name in POLICIES.values())])
    papers = "penstock.benchmarks.papers"
    return policies, reached([f"{papers}.command.command", *(f"{papers}.{name}.EVALUATION" for name in NAMES)])


@cache
def run_by_sources() -> frozenset[str]:
    """Return what the sources of a running job lead to, and what tells them which records to read."""
    control = "penstock.engine.control"
    places = [f"{control}.local_sic.LocalSic", f"{control}.sic_coordinator.SicCoordinator"]
    return reached(["penstock.engine.dataflow.source_head.SourceHead", *places])


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['paper']}: {row['what']}")
def test_every_row_says_what_runs_its_code(row: re.Match[str]) -> None:
    policies, evaluations = run_by()
    runs = {"policies": policies, "sources": run_by_sources(), "evaluation": evaluations}
    assert row["by"] == next((name for name, code in runs.items() if row["code"] in code), "nothing")


def test_definitions_are_followed_through_calls_imports_and_modules() -> None:
    found = reached(["penstock.shedding.qod.PENSTOCK"])
    assert "penstock.shedding.accuracy.desired" in found and "penstock.shedding.qod_kill.kill_tasks" in found
    assert "penstock.scheduler.placement.place" not in found
