"""The log that pages ask: what they show of it stands in it, and the job that left it runs as its page says."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.control.recorded_windows import ticks_of
from tests.docs.pages import RECORDED, ROOT, Block, blocks, content

PAGE = ROOT / "docs" / "how-to" / "read-the-action-log.md"
SHORT = {"30": "2", "110": "4"}
"""Seconds of the page's job, and what they are here."""

pytestmark = pytest.mark.xdist_group("snippets")


def page() -> list[Block]:
    return blocks(PAGE.read_text(encoding="utf-8"))


def entries(text: str) -> Iterator[Any]:
    """Yield the JSON objects of a text, which may take several lines each."""
    decoder = json.JSONDecoder()
    while text := text.strip():
        entry, end = decoder.raw_decode(text.replace("\n", " "))
        text = text[end:]
        yield entry


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_empty(item) for key, item in value.items() if item not in ([], {}) or key == "numbers"}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def is_part(shown: Any, whole: Any) -> bool:
    """Return whether whatever is shown of an entry is so in it."""
    if isinstance(shown, dict) and isinstance(whole, dict):
        return all(key in whole and is_part(value, whole[key]) for key, value in shown.items())
    if isinstance(shown, list) and isinstance(whole, list):
        return len(shown) == len(whole) and all(is_part(one, other) for one, other in zip(shown, whole, strict=True))
    return bool(shown == whole)


def test_the_lines_that_the_page_shows_are_those_of_the_log() -> None:
    (log,) = (content(block) for block in page() if block.kind == RECORDED)
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    own = [entry for line in log.splitlines() if (entry := json.loads(line)).get("policy") == "ds2"]
    told = [without_empty(entry) for entry in own if entry["kind"] != "policy"]
    found = list(entries(shown))
    assert len(found) == 5 and all(is_part(one, other) for one, other in zip(found, told, strict=False))


def test_a_figure_that_is_not_in_the_log_is_noticed() -> None:
    assert is_part({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}], "d": 3})
    assert not is_part({"a": [{"b": 2}]}, {"a": [{"b": 1, "c": 2}]}) and not is_part({"a": []}, {"a": [1]})


@pytest.mark.slow
def test_the_job_that_leaves_such_a_log_runs(tmp_path: Path) -> None:
    """Its seconds are fewer, and all of it is as the page has it."""
    (job,) = (block for block in page() if block.file == "paced.py")
    text = re.sub(r"\b(30|110)\b", lambda found: SHORT[found[0]], job.text)
    (tmp_path / "paced.py").write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for command in (["paced.py"], ["-m", "penstock", "decide", "paced.jsonl", "--policy", "placement"]):
        ran = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "as recorded" in ran.stdout
    counts = Counter[int]()
    for file in (tmp_path / "out").glob("part-*.jsonl"):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            counts[row["key"]] += row["weight"] * row["n"]
    # Each key comes once in each of four partitions.
    assert counts == Counter(dict.fromkeys(range((250 * 2 + 600 * 4) // 4), 4))
    assert len(list(ticks_of(tmp_path / "paced.jsonl"))) >= 5
