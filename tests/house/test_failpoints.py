"""The failpoints in the code are those of the list, each with one meaning."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from penstock.model.failpoint_names import MEANINGS

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("model", "state", "shedding", "scheduler", "engine", "penstock", "replay", "benchmarks")
TWINS = {"state/stores/rocksdb_store.py", "state/stores/simulated_page_store.py"}
"""Two ways to do the same, with the same points."""
LEAST = 30


def calls(function: str) -> Iterator[tuple[str, ast.Call]]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
                    yield path.relative_to(ROOT).as_posix(), node


@cache
def names() -> tuple[tuple[str, str], ...]:
    """Return (file, name) of every failpoint; `publish` has those that begin with its last argument."""
    last = [call.args[-1] for _, call in calls("publish") if call.args]
    prefixes = [argument.value for argument in last if isinstance(argument, ast.Constant)]
    found = []
    for file, call in calls("failpoint"):
        (name,) = call.args
        if isinstance(name, ast.Constant):
            found.append((file, str(name.value)))
        else:
            assert isinstance(name, ast.JoinedStr) and isinstance(name.values[-1], ast.Constant), file
            found += [(file, f"{prefix}{name.values[-1].value}") for prefix in prefixes]
    return tuple(found)


def test_the_list_is_that_of_the_code() -> None:
    found = {name for _, name in names()}
    assert found == set(MEANINGS)
    assert len(found) >= LEAST


def test_a_name_stands_in_one_place() -> None:
    counts = Counter((file in TWINS, name) for file, name in names())
    twins = {name for file, name in names() if file in TWINS}
    assert [name for (twin, name), times in counts.items() if times > (2 if twin else 1)] == []
    assert [name for (twin, name) in counts if not twin and name in twins] == []


def test_every_meaning_is_its_own() -> None:
    assert [meaning for meaning, times in Counter(MEANINGS.values()).items() if times > 1] == []
