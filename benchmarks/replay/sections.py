"""The page of results, a section for each benchmark, which it replaces when it is run again."""

import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "results" / "replay.md"
_TITLE = "# Replays on Spark\n"


def write_section(title: str, text: str, page: Path = RESULTS) -> None:
    """Write a section, in place of the one with this title or behind all others."""
    content = page.read_text(encoding="utf-8") if page.exists() else _TITLE
    section = f"## {title}\n\n{text.strip()}\n"
    pattern = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    replaced, count = pattern.subn(lambda match: f"{section}\n", content)
    if not count:
        replaced = f"{content.rstrip()}\n\n{section}"
    page.write_text(replaced.rstrip() + "\n", encoding="utf-8")
