"""Every page and section that code and documents cite is in the repository."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.citations import Citation, citations, sections, unknown_names, unresolved

ROOT = Path(__file__).resolve().parents[2]
NOT_WRITTEN = {"build", "dist", "site", "__pycache__"}
"""Folders that commands fill; so do those with a dot, but for that of the continuous integration."""
SUFFIXES = {".py", ".toml", ".md", ".cfg", ".yml", ".yaml", ".txt", ""}
PLANTED = Path(__file__).resolve()
"""This file, whose texts are wrong on purpose."""
NAVIGATION = ROOT / "mkdocs.yml"


def files(folder: Path = ROOT) -> Iterator[Path]:
    """Yield every file that people write; links, as those in ``penstock`` to the other folders, are not followed."""
    for path in sorted(folder.iterdir()):
        is_written = path.name not in NOT_WRITTEN and (not path.name.startswith(".") or path.name == ".ci")
        if path.is_dir() and not path.is_symlink() and is_written and path.suffix != ".egg-info":
            yield from files(path)
        elif path.is_file() and path.suffix in SUFFIXES:
            yield path


def test_every_citation_resolves() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} {sentence}"
        for path in files()
        if path not in (PLANTED, NAVIGATION)
        for sentence in unresolved(ROOT, path, path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


def test_files_tests_and_modules_that_design_pages_name_are_there() -> None:
    pages = sorted((ROOT / "docs" / "design").rglob("*.md"))
    assert pages
    wrong = [
        f"{page.relative_to(ROOT)} {sentence}"
        for page in pages
        for sentence in unknown_names(ROOT, page.read_text(encoding="utf-8"))
    ]
    assert wrong == []


def test_every_design_page_is_on_the_site() -> None:
    navigation = NAVIGATION.read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "design").rglob("*.md")]
    assert [page for page in pages if f": {page}\n" not in navigation] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fetches (docs/a.md 7).", [Citation("docs/a.md", ("7",))]),
        ("Fetches (docs/a.md section 7, b.md facts 2 and 3).", [("docs/a.md", "7"), ("b.md", "2", "3")]),
        ("as docs/a.md, section 4.2", [("docs/a.md", "4.2")]),
        ("R1 of docs/a.md", [("docs/a.md",)]),
        ("(docs/a.md R1, R3) and docs/b.md M3.", [("docs/a.md", "R1", "R3"), ("docs/b.md", "M3")]),
        ('docs/a.md "Order and ties"', [("docs/a.md", "Order and ties")]),
        ("docs/a.md#order-and-ties", [("docs/a.md", "order-and-ties")]),
        ("# the split of\n# docs/a.md\n# 6, and more", [("docs/a.md", "6")]),
        ("2-4 of docs/a.md 2-4", [("docs/a.md", "2", "4")]),
        ("docs/decisions/NNNN-title.md, *.md, <name>.md", []),
    ],
)
def test_citations_are_found(text: str, expected: list[Citation | tuple[str, ...]]) -> None:
    wanted = [item if isinstance(item, Citation) else Citation(item[0], item[1:]) for item in expected]
    assert citations(text) == wanted


def test_sections_have_numbers_titles_anchors_and_ids() -> None:
    page = (
        "# Kafka\n\n## 3. `Markers` and ends\n\n```sh\n# no heading\n```\n\n| id | what |\n|---|---|\n| K1 | gone |\n"
    )
    found = sections(page)
    assert found >= {"Kafka", "3", "3. Markers and ends", "3-markers-and-ends", "K1"}
    assert "no heading" not in found and "id" not in found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "design").mkdir(parents=True)
    (tmp_path / "docs" / "design" / "kafka.md").write_text("# Kafka\n\n## 1. Offsets\n")
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "ends.py").write_text("def over() -> None: ...\n")
    return tmp_path


@pytest.mark.parametrize(
    ("planted", "sentence"),
    [
        ('"""Offsets (docs/design/kafka.md 1)."""\n', None),
        (
            '"""Offsets (docs/design/kafka.md 7)."""\n',
            "cites section '7' of 'docs/design/kafka.md', which is not there",
        ),
        ('"""Offsets (engine.md 7)."""\n', "cites 'engine.md', which is not there"),
        ('"""Offsets (kafka.md 1)."""\n', "cites 'kafka.md', which is not there"),
        ('X = 1\n"""A constant (engine.md)."""\n', "cites 'engine.md', which is not there"),
        ("x = 1  # papers.md 3\n", "cites 'papers.md', which is not there"),
        ('write(tmp / "notes.md")\n', None),
    ],
)
def test_what_code_cites_in_vain_is_said(root: Path, planted: str, sentence: str | None) -> None:
    assert list(unresolved(root, root / "engine" / "planted.py", planted)) == ([] if sentence is None else [sentence])


@pytest.mark.parametrize(
    ("planted", "sentence"),
    [
        ("[Kafka](kafka.md#1-offsets), kafka.md 1, docs/design/kafka.md, [out](https://kafka.apache.org/x.md#y)", None),
        ("[Kafka](kafka.md#2-ends)", "cites section '2-ends' of 'kafka.md', which is not there"),
        ("[Kafka](../kafka.md)", "links to '../kafka.md', which is not there"),
        ("see engine.md 3", "cites 'engine.md', which is not there"),
        ("```text\nsee engine.md 3\n```", None),
    ],
)
def test_what_pages_cite_in_vain_is_said(root: Path, planted: str, sentence: str | None) -> None:
    page = root / "docs" / "design" / "planted.md"
    assert list(unresolved(root, page, planted)) == ([] if sentence is None else [sentence])


@pytest.mark.parametrize(
    ("planted", "sentence"),
    [
        ("`engine/ends.py`, `engine/`, `engine/ends.py::over`, `penstock.model.plan`, `env:NAME`, `a/b`", None),
        ("`engine/end.py`", "names 'engine/end.py', which is not there"),
        ("`end.py`", "names 'end.py', which is not there"),
        ("`engine/ends.py::under`", "names 'under', which 'engine/ends.py' does not define"),
        ("`penstock.model.plan.NoChange`", None),
        ("`penstock.model.plan.Nothing`", "names 'penstock.model.plan.Nothing', which cannot be imported"),
    ],
)
def test_what_design_pages_name_in_vain_is_said(root: Path, planted: str, sentence: str | None) -> None:
    assert list(unknown_names(root, planted)) == ([] if sentence is None else [sentence])
