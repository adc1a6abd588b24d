"""The front door is light: help and version import nothing heavy, and every public name is found."""

import ast
import configparser
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from tests.command_line import commands

ROOT = Path(penstock.__file__).parent.parent
HEAVY = (
    "numba",
    "pyarrow",
    "numpy",
    "sqlglot",
    "duckdb",
    "polars",
    "pandas",
    "penstock.engine",
    "confluent_kafka",
    "pyspark",
)
PROBE = """
import sys
sys.argv[:] = ["penstock", *sys.argv[1:]]
from penstock.commands.cli import main
try:
    main()
except SystemExit as end:
    print("exit", end.code)
print("modules", *sys.modules)
"""


@pytest.mark.parametrize("name", ["", *commands()])
def test_help_imports_nothing_heavy(name: str) -> None:
    """It is drawn with rich; what is added by entry points is imported only for its own help."""
    loaded = _loaded(*name.split(), "--help")
    assert not [heavy for heavy in HEAVY if heavy in loaded]
    assert name or not [module for module in loaded if module.startswith(("penstock.replay", "penstock.benchmarks"))]


def test_the_version_imports_nothing_heavy() -> None:
    assert not [heavy for heavy in (*HEAVY, "rich") if heavy in _loaded("--version")]


def test_importing_penstock_is_fast_and_light() -> None:
    probe = (
        "import sys, time; start = time.perf_counter(); import penstock; "
        "print(time.perf_counter() - start, *sys.modules)"
    )
    runs = [_python("-c", probe).split() for _ in range(3)]
    assert not [name for name in (*HEAVY, "rich") if name in runs[0][1:]]
    assert min(float(run[0]) for run in runs) < 0.05


def test_every_public_name_is_found_where_it_is_said_to_be() -> None:
    for name in penstock.__all__:
        value = getattr(penstock, name)
        home = getattr(value, "__module__", None)
        if home is not None and home.startswith("penstock."):
            assert getattr(importlib.import_module(home), name) is value
    assert dir(penstock) == sorted(penstock.__all__)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(penstock.__file__).read_text(encoding="utf-8"))
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    )
    seen = {
        alias.name: node.module.removeprefix("penstock.")
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
    assert seen == penstock._MODULE_OF
    assert sorted(seen) == sorted(penstock.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tumbel'"):
        penstock.tumbel  # noqa: B018


def test_version_is_the_package_s() -> None:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    assert config["metadata"]["version"] in (penstock.__version__, "attr: penstock.__version__")


def _loaded(*arguments: str) -> set[str]:
    """Run ``penstock`` and return the modules that it has imported."""
    out = _python("-c", PROBE, *arguments)
    assert "exit 0" in out
    return set(out.splitlines()[-1].split()[1:])


def _python(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    return done.stdout
