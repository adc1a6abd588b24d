"""PAPERS.md tells where each equation is, and what holds it: all of it is there."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(
    r"^\| (?P<paper>[^|]+) \| (?P<what>[^|]+) \| `(?P<code>[\w.]+)` \| `(?P<file>[\w/]+\.py)::(?P<test>\w+)` \|$"
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
