"""Which pages and sections a text cites, and which of them are not there.

A citation is the path of a Markdown page, from the root of the repository or, in Markdown, from the page that cites,
and the sections behind it: ``docs/design/kafka.md 3``, ``2 and 3``, ``R1``, ``"Order and ties"``, or ``#an-anchor``. A
section is a heading, by its number, its title or its anchor, or a row of a table that begins with its id.
"""

import ast
import importlib
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SECTION = r'(?:[A-Z]?\d+(?:\.\d+)*|"[^"]+")'
_CITED = re.compile(
    r"(?<![\w*<>./-])(?P<page>[\w./-]+\.md)\b"
    r"(?:#(?P<anchor>[\w-]+))?"
    rf"(?:,?[ ](?:(?:section|point|fact|row|table)s?[ ])?"
    rf"(?P<sections>{_SECTION}(?:(?:,[ ]|[ ]and[ ]|[ ]to[ ]|-){_SECTION})*))?"
)
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^(?P<fence>```+).*?^(?P=fence)$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (?P<title>.+?)\s*$", re.MULTILINE)
_NUMBERED = re.compile(r"(?P<number>\d+(?:\.\d+)*)\.? ")
_ROW = re.compile(r"^\| (?P<id>[A-Z]\d+) \|", re.MULTILINE)
_PLACEHOLDER = "NNNN"

_CODE = re.compile(r"`(?P<name>[^`\s]+)`")
_FOLDERS = (
    "model",
    "state",
    "shedding",
    "scheduler",
    "engine",
    "penstock",
    "replay",
    "benchmarks",
    "tests",
    "docs",
    "examples",
)
_IN_A_FOLDER = re.compile(rf"(?:{'|'.join(_FOLDERS)})/[\w./-]*")
_A_FILE = re.compile(r"[\w./-]+\.(?:py|toml|md|json|cfg)")
_A_MODULE = re.compile(r"penstock(?:\.\w+)+")


@dataclass(frozen=True)
class Citation:
    """A page as it is written, with the sections of it that are named."""

    page: str
    sections: tuple[str, ...] = ()


def citations(text: str) -> list[Citation]:
    """Return what a text cites, in order; a citation may be broken over lines of text or of comments."""
    flat = re.sub(r"\s*\n\s*(?:#\s*)?", " ", text)
    found = []
    for match in _CITED.finditer(flat):
        if _PLACEHOLDER in match["page"]:
            continue
        named = [match["anchor"]] if match["anchor"] else re.findall(_SECTION, match["sections"] or "")
        found.append(Citation(match["page"], tuple(section.strip('"') for section in named)))
    return found


def sections(page: str) -> set[str]:
    """Return every name by which a section of a Markdown page may be cited."""
    plain = _FENCE.sub("", page)
    names = {match["id"] for match in _ROW.finditer(plain)}
    for match in _HEADING.finditer(plain):
        title = match["title"].replace("`", "")
        number = _NUMBERED.match(title)
        names |= {title, re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())}
        names |= {number["number"]} if number else set()
    return names


def prose(file: Path, text: str) -> str:
    """Return what a file says to readers: docstrings and comments of Python, all of anything else but code blocks."""
    if file.suffix == ".md":
        return _FENCE.sub("", text)
    if file.suffix != ".py":
        return text
    strings = [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    # Comments of following lines are one text, docstrings are texts of their own.
    return "\n\n\f".join([*strings, "\n".join(comments)])


def unresolved(root: Path, file: Path, text: str) -> Iterator[str]:
    """Yield a sentence for every page or section that a text of ``file`` cites and that is not below ``root``."""
    if ".md" not in text and "](" not in text:
        return
    said = prose(file, text)
    bases = [root, file.parent] if file.suffix == ".md" else [root]
    for citation in citations(_LINK.sub("]", said) if file.suffix == ".md" else said):
        pages = [base / citation.page for base in bases if (base / citation.page).is_file()]
        yield from _missing(citation, pages[0] if pages else None)
    if file.suffix == ".md":
        yield from _broken_links(file, said)


def _broken_links(file: Path, said: str) -> Iterator[str]:
    for match in _LINK.finditer(said):
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        page = file.parent / target if target else file
        if not page.exists():
            yield f"links to {target!r}, which is not there"
        elif anchor and page.suffix == ".md":
            yield from _missing(Citation(target or file.name, (anchor,)), page)


def _missing(citation: Citation, page: Path | None) -> Iterator[str]:
    if page is None:
        yield f"cites {citation.page!r}, which is not there"
        return
    names = sections(page.read_text(encoding="utf-8"))
    for section in citation.sections:
        if section not in names:
            yield f"cites section {section!r} of {citation.page!r}, which is not there"


def unknown_names(root: Path, text: str) -> Iterator[str]:
    """Yield a sentence for every file, test or module in backticks that is not there."""
    for match in _CODE.finditer(_FENCE.sub("", text)):
        path, _, test = match["name"].partition("::")
        if _IN_A_FOLDER.fullmatch(path) or _A_FILE.fullmatch(path):
            if not (root / path).exists():
                yield f"names {path!r}, which is not there"
            elif test and not _defines(root / path, test):
                yield f"names {test!r}, which {path!r} does not define"
        elif _A_MODULE.fullmatch(path) and not _is_importable(path):
            yield f"names {path!r}, which cannot be imported"


def _defines(file: Path, name: str) -> bool:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name for node in ast.walk(tree))


def _is_importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return bool(module) and hasattr(importlib.import_module(module), attribute)
    return True
