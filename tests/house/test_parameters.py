"""No list of parameters in the engine is longer than eight; in kernels the arrays of one table travel as one."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST = 8


def long_lists(source: str) -> Iterator[tuple[str, int]]:
    """Yield functions by name whose parameters, but for the first of a method, are more than `MOST`."""
    tree = ast.parse(source)
    methods = {item for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for item in node.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            named = node.args
            count = len(named.posonlyargs) + len(named.args) + len(named.kwonlyargs)
            static = any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in node.decorator_list)
            count -= node in methods and not static
            if count > MOST:
                yield node.name, count


def test_lists_are_counted_without_self() -> None:
    eight = ", ".join(f"a{number}" for number in range(8))
    assert list(long_lists(f"class C:\n    def f(self, {eight}): ...\ndef g({eight}): ...")) == []
    assert sorted(long_lists(f"class C:\n    def f(self, {eight}, *, b): ...\ndef g(a, {eight}): ...")) == [
        ("f", 9),
        ("g", 9),
    ]


def test_no_parameter_list_of_the_engine_is_too_long() -> None:
    strays = [
        (path.relative_to(ROOT).as_posix(), *found)
        for path in sorted((ROOT / "engine").rglob("*.py"))
        for found in long_lists(path.read_text())
    ]
    assert strays == []
