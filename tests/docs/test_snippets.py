"""Every snippet of the documentation runs, and prints what the page says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, pages

RUNNER = Path(__file__).with_name("run_page.py")

pytestmark = pytest.mark.xdist_group("snippets")


@pytest.fixture(scope="module")
def wrong() -> dict[str, str]:
    """Run all pages and return what went wrong in each."""
    ran = subprocess.run(
        [sys.executable, str(RUNNER), *map(str, pages())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0 and ran.stdout, ran.stdout + ran.stderr
    found: dict[str, str] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_snippets_of_a_page_run(page: Path, wrong: dict[str, str]) -> None:
    assert wrong[str(page)] == ""


def test_a_page_is_cut_into_its_blocks() -> None:
    page = (
        "<!-- setup\nx = 1\n-->\n```python\nprint(x)\n```\nwords\n```text\n1\n```\n"
        "<!-- not run: it is long -->\n```console\npenstock nexmark\n```\n```text\nno output of it\n```\n"
        "<!-- file: a.csv, b/c.csv -->\n```csv\nshop\n```\n"
        "<!-- recorded: paced.jsonl -->\n```text\nno output of it\n```\n"
    )
    found = [(block.kind, block.text, block.line, block.file, block.output) for block in blocks(page)]
    assert found == [
        ("python", "x = 1\n", 2, None, None),
        ("python", "print(x)\n", 5, None, "1\n"),
        ("text", "no output of it\n", 16, None, None),
        ("csv", "shop\n", 20, "a.csv", None),
        ("csv", "shop\n", 20, "b/c.csv", None),
        ("recorded", "", 22, "paced.jsonl", None),
        ("text", "no output of it\n", 24, None, None),
    ]
