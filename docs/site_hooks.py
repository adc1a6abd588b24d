"""What MkDocs cannot do by itself: pages from the root of the repository, the list of decisions, colours of code.

MkDocs calls these functions while it builds the site; ``mkdocs.yml`` names this file.
"""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from pygments.formatters.html import HtmlFormatter

sys.path.insert(0, str(Path(__file__).parent))
from reference_tables import for_the_site

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {"ARCHITECTURE.md": "architecture.md", "GLOSSARY.md": "glossary.md"}
"""Pages that lie outside ``docs`` in the repository, and where the site has them."""


def on_config(config: Any) -> Any:
    """List every decision."""
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    for item in config["nav"]:
        if "Decisions" in item:
            item["Decisions"] = [f"decisions/{page.name}" for page in pages]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root, and the style sheet of code."""
    for source, target in ROOT_PAGES.items():
        files.append(File.generated(config, target, content=_moved((ROOT / source).read_text(encoding="utf-8"))))
    style = HtmlFormatter(style="default").get_style_defs(".highlight")
    files.append(File.generated(config, "highlight.css", content=style))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links to pages of the root lead to where the site has them, and directives stand for their descriptions."""
    markdown = for_the_site(markdown)
    for source, target in ROOT_PAGES.items():
        markdown = re.sub(rf"\]\(((?:\.\./)*)\.\./{source}(#[^)]*)?\)", rf"](\1{target}\2)", markdown)
    return markdown


def _moved(text: str) -> str:
    """Return a page of the root with its links as seen from ``docs``."""
    text = re.sub(r"\]\(docs/decisions\)", "](decisions/0001-links-and-mapping.md)", text)
    text = re.sub(r"\]\(docs/", "](", text)
    for source, target in ROOT_PAGES.items():
        text = text.replace(f"]({source})", f"]({target})")
    return text
