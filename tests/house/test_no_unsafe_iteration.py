"""Iteration over RocksDB asks for the iterator's status: what ends early at a damaged block says nothing by itself."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ONLY_USER = "state/stores/rocksdb_store.py"
FOLDERS = ("model", "state", "shedding", "scheduler", "engine", "penstock", "replay", "benchmarks", "tests", "examples")
UNSAFE = {"items", "keys", "values", "columns", "entities"}


def files():
    return [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # What importlib and importorskip are given.
            yield node.value


def attributes(node):
    return {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def test_rocksdict_is_imported_in_one_file():
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in files()}
    users = {
        name
        for name, text in texts.items()
        if "rocksdict" in text and any(module.split(".")[0] == "rocksdict" for module in imported(ast.parse(text)))
    }
    # The table of libraries, and this file, name it.
    named = {"tests/house/test_libraries.py", "tests/house/test_no_unsafe_iteration.py"}
    # A benchmark measures the bare library, and iterates over nothing.
    assert users - named == {ONLY_USER, "benchmarks/state/bare.py"}


def test_that_file_iterates_by_status_only():
    tree = ast.parse((ROOT / ONLY_USER).read_text())
    assert attributes(tree) & UNSAFE == set()
    loops = [node.iter for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension)]
    assert [ast.unparse(loop) for loop in loops if ast.unparse(loop).endswith("_db")] == []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    iterating = [node for node in functions if attributes(node) & {"iter", "seek", "seek_to_first"}]
    assert iterating
    assert all("status" in attributes(node) for node in iterating)
