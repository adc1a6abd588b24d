"""The snippets of a page: fenced blocks in order, and the comments above them that say what to do with them.

``<!-- setup`` ... ``-->`` is Python that runs but is not shown; ``<!-- file: NAME -->`` saves the next block under
that name instead of running it, or under several, with commas between; ``<!-- not run: WHY -->`` leaves the next block
out; ``<!-- recorded: NAME -->`` saves what a program that takes long has left once, from `tests/fixtures`. A ``text``
block after a ``python`` or ``console`` block is what that prints.
"""

import lzma
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("python", "console")
RECORDED = "recorded"

_PIECE = re.compile(
    r"^<!--[ ]setup\n(?P<setup>.*?)^-->$"
    r"|^<!--[ ](?P<order>file|not[ ]run|recorded):[ ](?P<value>.*?)[ ]-->$"
    r"|^(?P<fence>```+)(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A block; ``line`` is the number of its first line, ``output`` what it prints (None: not said)."""

    kind: str
    text: str
    line: int
    file: str | None = None
    output: str | None = None


def pages() -> list[Path]:
    """Return the pages that have snippets."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if any(block.kind in KINDS for block in blocks(path.read_text(encoding="utf-8")))]


def content(block: Block) -> str:
    """Return what a block is saved as."""
    if block.kind != RECORDED:
        return block.text
    with lzma.open(ROOT / "tests" / "fixtures" / f"{block.file}.xz", "rt", encoding="utf-8") as file:
        return file.read()


def blocks(page: str) -> list[Block]:
    """Return the blocks to run or to save, in order."""
    found: list[Block] = []
    order: tuple[str, str] | None = None
    takes_output = False
    for piece in _PIECE.finditer(page):
        if piece["order"] == RECORDED:
            found.append(Block(RECORDED, "", page.count("\n", 0, piece.start()) + 1, piece["value"]))
            takes_output = False
            continue
        if piece["order"] is not None:
            order, takes_output = (piece["order"], piece["value"]), False
            continue
        kind = piece["kind"] if piece["setup"] is None else "python"
        text = piece["text"] if piece["setup"] is None else piece["setup"]
        line = page.count("\n", 0, piece.start()) + 2
        saved = order is not None and order[0] == "file"
        if kind == "text" and takes_output:
            last = found[-1]
            found[-1] = Block(last.kind, last.text, last.line, last.file, text)
        elif order is None or saved:
            names = [None] if order is None else order[1].split(", ")
            found += [Block(kind, text, line, name) for name in names]
        takes_output = order is None and kind in KINDS and piece["setup"] is None
        order = None
    return found
