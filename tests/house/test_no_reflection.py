"""The engine changes no object behind its class: attributes are set by name, copies are made by ``copy``."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CALLS = frozenset({"vars", "setattr", "delattr"})
ATTRIBUTES = frozenset({"__dict__", "__new__"})


def reflections(source: str) -> Iterator[tuple[int, str]]:
    """Yield lines that reach for an object's attributes other than by their names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield node.lineno, node.func.id
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield node.lineno, node.attr


def test_reflections_are_found() -> None:
    source = "vars(a).clear()\ncopy = object.__new__(C)\nb.__dict__.update(c)\n"
    assert sorted(reflections(source)) == [(1, "vars"), (2, "__new__"), (3, "__dict__")]
    assert list(reflections("name = type(error).__name__\nvalue = getattr(message, 'field')\n")) == []


def test_the_engine_reflects_on_nothing() -> None:
    strays = [
        (path.relative_to(ROOT).as_posix(), *found)
        for path in sorted((ROOT / "engine").rglob("*.py"))
        for found in reflections(path.read_text())
    ]
    assert strays == []
