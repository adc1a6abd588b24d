"""The page on the HTTP API names every operation, event and error code that there is, and no other."""

import re
from pathlib import Path
from typing import get_args

from penstock.http_api.answers import ErrorCode
from penstock.http_api.event_messages import KINDS
from penstock.http_api.operations import OPERATIONS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_operations() -> None:
    rows = re.findall(r"^\| `(\w+) (\S+)` \| (\w+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [(item.method, item.path, item.scope.name.lower(), item.summary) for item in OPERATIONS]


def test_events() -> None:
    assert re.findall(r"^\| `(\w+)` \|", section("Events"), re.MULTILINE) == list(KINDS)


def test_error_codes() -> None:
    named = re.findall(r"^\| [\d, ]+ \| `(\w+)` \|", section("Errors"), re.MULTILINE)
    assert sorted(named) == sorted(get_args(ErrorCode))
