"""Programs as users start them, on every executor: no main guard, ``-m``, ``-c``, a notebook, a file beside them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent

import pytest

import penstock as ps
from tests.contracts.executors.ways import CASES, EXECUTORS
from tests.long_cases import but_for

ROWS = 400
LINE = "~" * 3_000 + "!"
LONG_S = 120.0
"""Longer than anything here takes."""

HELPER = """
    def tax(amount):
        return amount // 5
"""

SHOP = """
    import json
    import os
    import sys
    from dataclasses import dataclass

    import penstock as ps
    from helper_of_the_shop import tax

    @dataclass
    class Sale:
        id: int
        amount: int

    @dataclass
    class Taxed:
        key: int
        tax: int
        worker: int

    def with_tax(row) -> Taxed:
        print("~" * 3_000 + "!")
        return Taxed(row["id"] % 7, tax(row["amount"]), os.getpid())

    taxed = ps.read_json("sales", schema=Sale).map(with_tax)
    totals = taxed.key_by("key").agg(n=ps.count(), total=ps.sum_("tax")).collect()
    workers = taxed.distinct("worker").collect()
    seen = []
    taxed.for_each_batch(lambda rows: seen.append((os.getpid(), rows.num_rows)))

    ps.run("shop", parallelism=2, **OPTIONS)

    here = {place == os.getpid() for place, _ in seen}
    found = sorted([row["key"], row["n"], row["total"]] for row in totals.rows())
    others = len({row["worker"] for row in workers.rows()} - {os.getpid()})
    print(json.dumps([found, others, list(here), sum(rows for _, rows in seen)]))
"""

NOTEBOOK = """
    import json, linecache, sys

    def cells(texts):
        for number, text in enumerate(texts):
            name = f"/tmp/ipykernel_1/{number}.py"
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec"), globals())

    cells(json.load(sys.stdin))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with sales in two files, and a helper beside them."""
    (tmp_path / "sales").mkdir()
    for half in range(2):
        lines = [json.dumps({"id": i, "amount": 13 * i}) for i in range(half, ROWS, 2)]
        (tmp_path / "sales" / f"{half}.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "helper_of_the_shop.py").write_text(dedent(HELPER))
    return tmp_path


def expected(others: int) -> list[object]:
    """Return what the program prints at its end."""
    totals = {}
    for i in range(ROWS):
        n, total = totals.get(i % 7, (0, 0))
        totals[i % 7] = n + 1, total + 13 * i // 5
    return [[[key, *totals[key]] for key in sorted(totals)], others, [True], ROWS]


def program(executor: str) -> str:
    return dedent(SHOP).replace("**OPTIONS", f"**{dict(EXECUTORS[executor])!r}")


def run(folder: Path, arguments: Sequence[str], text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(ps.__file__).parents[1])},
        input=text,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


Way = Callable[[Path, str], "subprocess.CompletedProcess[str]"]


def as_file(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    (folder / "shop.py").write_text(text)
    return run(folder, ["shop.py"])


def as_module(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    package = folder / "shops"
    package.mkdir()
    (folder / "helper_of_the_shop.py").rename(package / "helper_of_the_shop.py")
    (package / "shop.py").write_text(text.replace("from helper", "from .helper"))
    return run(folder, ["-m", "shops.shop"])


def as_argument(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    return run(folder, ["-c", text])


def from_standard_input(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    return run(folder, ["-"], text)


def as_cells(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    return run(folder, ["-c", dedent(NOTEBOOK)], json.dumps([f"{cell}\n" for cell in text.split("\n\n")]))


WAYS: Sequence[Way] = (as_file, as_module, as_argument, from_standard_input, as_cells)
KEPT = [("processes", way) for way in (as_file, as_cells)]


@pytest.mark.parametrize(
    ("executor", "way"),
    but_for(
        # What task managers print on Ray comes through it, with the name of who printed before each line.
        [(executor, way) for executor in EXECUTORS if executor != "ray" for way in WAYS],
        KEPT,
        "the other ways; a file and the cells of a notebook stay",
    ),
)
def test_a_program_runs_as_it_is(folder: Path, executor: str, way: Way) -> None:
    ran = way(folder, program(executor))
    assert ran.returncode == 0, ran.stderr
    *lines, last = ran.stdout.splitlines()
    assert lines == [LINE] * ROWS
    assert json.loads(last) == expected(others=2 if EXECUTORS[executor] else 0)
    assert [text for text in ran.stderr.splitlines() if not text.startswith("ONE CORE")] == []


FAILING = """
    import penstock as ps

    def look(row):
        if row["id"] == 123:
            raise LookupError("nobody knows 123")
        return row

    ps.read_json("sales", schema={"id": int, "amount": int}).map(look, on_error="fail").write_csv("out")
    ps.run("failing", parallelism=2)
"""


@pytest.mark.parametrize("executor", CASES)
def test_the_command_shows_the_users_line_and_error(folder: Path, executor: str) -> None:
    (folder / "failing.py").write_text(dedent(FAILING).lstrip())
    options = ["--executor", executor, *(["--task-managers", "2"] * (executor != "embedded"))]
    ran = run(folder, ["-m", "penstock", "run", "failing.py", *options])
    assert ran.returncode == 1
    assert "LookupError: nobody knows 123" in ran.stderr and "failing.py:5" in ran.stderr, ran.stderr
    assert "task_manager.py" not in ran.stderr
    assert not list((folder / "out").glob("*.csv"))
