"""The papers' properties: each is tried on as many cases as `tests.papers_cases` says, one command tries them all."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USERS = sorted(
    path
    for path in (ROOT / "tests").rglob("test_*.py")
    if path != Path(__file__) and "from tests.papers_cases import" in path.read_text()
)


def test_the_command_of_the_long_run_names_every_file_with_such_properties() -> None:
    command = re.search(r"`PENSTOCK_CASES=20000 \.venv/bin/pytest -q ([^`]+)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert command
    named = [ROOT / name for name in command[1].split()]
    assert len(USERS) > 20 and all(path.exists() for path in named)
    assert [user for user in USERS if not any(user.is_relative_to(path) for path in named)] == []


@pytest.mark.parametrize("folder", ["scheduler", "shedding"])
def test_every_property_there_asks_how_many_cases_it_gets(folder: str) -> None:
    """A test that is given random values, and does not say for how many, would get hypothesis' hundred."""
    found = 0
    for path in sorted((ROOT / "tests" / folder).glob("test_*.py")):
        for test in ast.walk(ast.parse(path.read_text())):
            if isinstance(test, ast.FunctionDef) and any(
                "given(" in said for said in map(ast.unparse, test.decorator_list)
            ):
                found += 1
                asked = [said for said in map(ast.unparse, test.decorator_list) if said.startswith("settings(")]
                assert asked and "cases(" in asked[0], f"{path.name}: {test.name}"
    assert found > 20
