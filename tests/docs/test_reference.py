"""The site builds without a warning, and its reference has every public name."""

import importlib.util
import inspect
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import penstock
from penstock import testing
from penstock.dsl.keyed_stream import KeyedStream, OverStream, WindowedStream
from penstock.engine.checkpoint.reader import Checkpoint
from penstock.model import errors
from tests.command_line import commands, shown
from tests.docs.pages import ROOT

CLASSES = {
    "penstock.Stream": penstock.Stream,
    "penstock.Result": penstock.Result,
    "penstock.Handle": penstock.Handle,
    "penstock.engine.checkpoint.reader.Checkpoint": Checkpoint,
    "penstock.dsl.keyed_stream.KeyedStream": KeyedStream,
    "penstock.dsl.keyed_stream.WindowedStream": WindowedStream,
    "penstock.dsl.keyed_stream.OverStream": OverStream,
    "penstock.testing.Kit": testing.Kit,
}
pytestmark = pytest.mark.xdist_group("reference")

COMMAND_LINE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
COMMANDS = commands()


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build the site and return what its reference describes."""
    site = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)]
    ran = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return described(site / "objects.inv")


def described(inventory: Path) -> set[str]:
    """Return the names in a Sphinx inventory: four lines of text, then compressed lines that begin with a name."""
    lines = zlib.decompress(inventory.read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    return {line.split(" ", 1)[0] for line in lines}


def test_the_reference_has_every_public_name(names: set[str]) -> None:
    assert [name for name in penstock.__all__ if f"penstock.{name}" not in names] == []


@pytest.mark.parametrize("path", CLASSES)
def test_the_reference_has_every_public_method(path: str, names: set[str]) -> None:
    methods = [name for name, _ in inspect.getmembers_static(CLASSES[path]) if not name.startswith("_")]
    described_methods = [name for name in methods if f"{path}.{name}" in names]
    assert [name for name in methods if name not in described_methods and name not in inherited_data(path)] == []


def inherited_data(path: str) -> set[str]:
    """Return annotations without a value, which are no methods."""
    return {name for kind in CLASSES[path].__mro__ for name in vars(kind).get("__annotations__", {})}


@pytest.mark.parametrize("name", [*COMMANDS])
def test_the_command_line_page_says_what_help_says(name: str) -> None:
    command, section = COMMANDS[name], section_of(name)
    assert command.help.split("\n\n")[0].replace("\n", " ") in section
    for item in shown(command):
        said = item.opts[0] if item.param_type_name == "option" else item.metavar
        assert re.search(rf"\| `{said}\b.*\| {re.escape(item.help)} \|", section), said
    named = {option for item in shown(command) for option in item.opts if option.startswith("--")}
    assert options(tables_of(section)) == named


def test_the_command_line_page_has_every_command_and_no_other() -> None:
    assert set(re.findall(r"^## penstock (.*)$", COMMAND_LINE, re.MULTILINE)) == set(COMMANDS)


def section_of(command: str) -> str:
    """Return what the page says of a command."""
    return re.split(r"^## ", COMMAND_LINE.split(f"\n## penstock {command}\n")[1], flags=re.MULTILINE)[0]


def tables_of(section: str) -> str:
    """Return the first column of the tables of a section, without the words of the others."""
    return "\n".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))


def options(text: str) -> set[str]:
    """Return the long options a text names."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


def test_the_tables_of_the_reference_are_fresh() -> None:
    """``python docs/reference_tables.py`` writes them."""
    spec = importlib.util.spec_from_file_location("reference_tables", ROOT / "docs" / "reference_tables.py")
    assert spec is not None and spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    package = tables.load()
    pages = {page.name: page.read_text(encoding="utf-8") for page in sorted(tables.PAGES.glob("*.md"))}
    assert [name for name, text in pages.items() if tables.with_tables(text, package) != text] == []
    shown = "\n".join(pages.values())
    assert [name for name in penstock.__all__ if f"| `{name}" not in shown] == []
    assert "\n::: " not in shown, "a forge shows this as it is: write <!-- ::: ... -->"


def test_the_page_of_errors_draws_the_tree_of_the_code() -> None:
    tree = str(errors.__doc__).strip().split("\n\n")[1]
    assert tree in (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")


def test_the_site_wraps_the_cells_of_tables() -> None:
    """The theme keeps them on one line and clips what does not fit into 800 px."""
    assert "\n  - site.css\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    style = (ROOT / "docs" / "site.css").read_text(encoding="utf-8")
    assert "white-space: normal" in style and "max-width: 1100px" in style
