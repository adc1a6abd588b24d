"""Follows a page that changes the project: in a copy, files are saved and lines added as the page says.

A block under ``<!-- file: NAME -->`` is saved. A ``diff`` block begins with ``--- NAME``; its lines that begin with a
space or a minus stand in that file, exactly once, and become those that begin with a space or a plus.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT, blocks, content

COPIED = ("model", "state", "shedding", "scheduler", "engine", "replay", "benchmarks", "penstock", "tests")
CONFIGURATION = ("setup.cfg", "pyproject.toml")


@dataclass(frozen=True)
class Followed:
    """A copy of the project that is as a page wants it; ``outputs`` are the page's ``text`` blocks."""

    root: Path
    files: tuple[str, ...]
    outputs: tuple[str, ...]

    def run(self, *arguments: str) -> str:
        """Run this Python with these arguments in the copy, and return what it prints; it must succeed."""
        ran = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


def follow(page: Path, root: Path) -> Followed:
    """Copy the project to a folder and do what the page says."""
    for name in COPIED:
        shutil.copytree(ROOT / name, root / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in CONFIGURATION:
        shutil.copy(ROOT / name, root / name)
    files, outputs = [], []
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.file is not None:
            files.append(block.file)
            (root / block.file).write_text(content(block), encoding="utf-8")
        elif block.kind == "diff":
            change(root, block.text)
        elif block.kind == "text":
            outputs.append(block.text)
    return Followed(root, tuple(files), tuple(outputs))


def change(root: Path, diff: str) -> None:
    """Apply a ``diff`` block."""
    head, *lines = diff.splitlines()
    assert head.startswith("--- "), f"a diff block begins with the file that it changes: {head}"
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] in (" ", "-"))
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] in (" ", "+"))
    file = root / head.removeprefix("--- ")
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{file.name} has these lines {text.count(before)} times, not once:\n{before}"
    file.write_text(text.replace(before, after), encoding="utf-8")
