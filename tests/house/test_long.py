"""Tests that ``make test`` leaves out say why."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.long_cases import but_for

ROOT = Path(__file__).resolve().parents[2]
HELPER = ROOT / "tests" / "long_cases.py"
"""Marks cases with the reason that it is given, which is looked at where it is given."""


def long_marks(source: str) -> Iterator[tuple[int, str | None]]:
    """Yield line and reason of every mark ``long``, and of every `but_for`; the reason is None where there is none."""
    if "mark.long" not in source and "but_for" not in source:
        return
    tree = ast.parse(source)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "long" and ast.unparse(node.value).endswith("mark"):
            place = 0
        elif isinstance(node, ast.Name) and node.id == "but_for":
            place = 2
        else:
            continue
        call = calls.get(id(node))
        given = call.args[place] if call and len(call.args) > place else None
        reason = given.value if isinstance(given, ast.Constant) else None
        yield node.lineno, reason if isinstance(reason, str) and len(reason.split()) >= 3 else None


def test_marks_without_a_reason_are_found() -> None:
    source = """
@pytest.mark.long("all queries; q5 stands in make test")
def test_a(): ...
@pytest.mark.long
def test_b(): ...
pytestmark = pytest.mark.long("")
every = but_for(NAMES, ["q5"], "all queries; q5 stands in make test")
more = but_for(NAMES, ["q5"], reason)
"""
    assert sorted(long_marks(source), key=lambda mark: mark[0]) == [
        (2, "all queries; q5 stands in make test"),
        (4, None),
        (6, None),
        (7, "all queries; q5 stands in make test"),
        (8, None),
    ]


def test_all_cases_but_those_that_stay_are_long() -> None:
    cases = but_for(["a", "b", pytest.param("c", marks=pytest.mark.slow)], ["a"], "the others; a stays")
    assert [[mark.name for mark in case.marks] for case in cases] == [[], ["long"], ["slow", "long"]]
    assert [case.values for case in but_for([("a", 1), ("b", 2)], [("a", 1)], "the other; a stays")] == [
        ("a", 1),
        ("b", 2),
    ]
    with pytest.raises(AssertionError, match=r"no cases \['d'\] to keep"):
        but_for(["a"], ["d"], "the others; d stays")


def test_every_long_test_gives_a_reason() -> None:
    marks = [
        (path.relative_to(ROOT).as_posix(), *mark)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != HELPER
        for mark in long_marks(path.read_text())
    ]
    assert [mark for mark in marks if mark[2] is None] == []
