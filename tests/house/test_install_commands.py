"""No document and no message tells to install Penstock from a package index, which does not have it."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BARE = re.compile(
    r"""pip\d?\ install\ (?:-\S+\ )*['"]?penstock(?!-\d)(?![^'"\n]*\ @\ ) | ['"`]penstock\[[\w,\ {}.]+\]['"`]""",
    re.VERBOSE,
)
"""The name without a place: as a command, or as a requirement in quotes."""

AT_HOME = {"tests/house/test_install_commands.py", "tests/penstock/doctor/test_environment.py"}
"""Files that name it so in order to read or to refuse it."""


def texts() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kinds = (".md", ".py", ".txt", ".cfg", ".toml", ".yml", ".sh")
    names = [name for name in listed.split("\0") if name.endswith(kinds)]
    return [ROOT / name for name in names if name not in AT_HOME]


def test_nobody_is_told_to_install_a_name_that_no_index_has() -> None:
    told = {
        str(path.relative_to(ROOT)): BARE.findall(text)
        for path in texts()
        if BARE.search(text := path.read_text(encoding="utf-8"))
    }
    assert told == {}


@pytest.mark.parametrize(
    "text",
    ["pip install penstock", "pip install 'penstock[broker]'", "`pip install -U penstock`", "needs ``penstock[sql]``"],
)
def test_a_name_without_a_place_is_seen(text: str) -> None:
    assert BARE.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install -e '.[broker]'",
        "pip install 'penstock[sql] @ file:///x.whl'",
        "pip install penstock-0.1.0-py3-none-any.whl",
        "penstock[avro,sql]",
    ],
)
def test_a_place_is_fine(text: str) -> None:
    assert not BARE.search(text)
