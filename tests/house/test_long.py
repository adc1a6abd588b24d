"""Tests that ``make test`` leaves out say why."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def long_marks(source: str) -> Iterator[tuple[int, str | None]]:
    """Yield line and reason of every mark ``long``; the reason is None where there is none."""
    tree = ast.parse(source)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "long" and ast.unparse(node).endswith("mark.long"):
            call = calls.get(id(node))
            reason = call.args[0].value if call and call.args and isinstance(call.args[0], ast.Constant) else None
            yield node.lineno, reason if isinstance(reason, str) and len(reason.split()) >= 3 else None


def test_marks_without_a_reason_are_found() -> None:
    source = """
@pytest.mark.long("all queries; q5 stands in make test")
def test_a(): ...
@pytest.mark.long
def test_b(): ...
pytestmark = pytest.mark.long("")
"""
    assert sorted(long_marks(source), key=lambda mark: mark[0]) == [
        (2, "all queries; q5 stands in make test"),
        (4, None),
        (6, None),
    ]


def test_every_long_test_gives_a_reason() -> None:
    marks = [
        (path.relative_to(ROOT).as_posix(), *mark)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for mark in long_marks(path.read_text())
    ]
    assert [mark for mark in marks if mark[2] is None] == []
