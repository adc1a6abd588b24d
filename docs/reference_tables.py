"""Makes the reference readable without building it: below its directives, tables of signatures and first sentences.

A page of ``docs/reference`` names what it describes in comments, ``<!-- ::: penstock.run -->``, which a forge does not
show; the site has the whole description there and no table (`site_hooks`). ``make docs`` writes the tables anew from
the docstrings, as does ``python docs/reference_tables.py``.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"

_ONE = r"<!-- ::: [\w.]+(?:\n [^\n]*)*\s*-->"
DIRECTIVE = re.compile(r"^<!-- (::: ([\w.]+)((?:\n [^\n]*)*))\s*-->$", re.MULTILINE)
TABLE = re.compile(r"\n\n<!-- table -->\n.*?\n<!-- end of table -->", re.DOTALL)
_RUN = re.compile(rf"^{_ONE}(?:\n+{_ONE})*$", re.MULTILINE)


def main() -> None:
    """Write the tables of all pages anew."""
    package = load()
    for page in sorted(PAGES.glob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = with_tables(before, package)
        if after != before:
            page.write_text(after, encoding="utf-8")


def load() -> griffe.Module:
    """Return what the sources say of the package, read without importing them."""
    loader = griffe.GriffeLoader(search_paths=[ROOT], docstring_parser=griffe.Parser("google"), allow_inspection=False)
    package = loader.load("penstock")
    loader.resolve_aliases(implicit=True)
    assert isinstance(package, griffe.Module)
    return package


def with_tables(page: str, package: griffe.Module) -> str:
    """Return a page with a fresh table below every run of directives."""
    return _RUN.sub(lambda run: f"{run[0]}\n\n{_table(run[0], package)}", TABLE.sub("", page))


def for_the_site(page: str) -> str:
    """Return a page as MkDocs builds it: with directives, without tables."""
    return DIRECTIVE.sub(r"\1\n", TABLE.sub("", page))


def _table(run: str, package: griffe.Module) -> str:
    rows: list[str] = []
    for directive in DIRECTIVE.finditer(run):
        path = directive[2].removeprefix("penstock.")
        options = (yaml.safe_load(directive[3]) or {}).get("options", {}) if directive[3].strip() else {}
        rows += [f"| {_code(shown)} | {text} |" for shown, text in _rows(package[path], path, options)]
    return "\n".join(["<!-- table -->", "| name | what it is |", "|---|---|", *rows, "<!-- end of table -->"])


def _rows(item: griffe.Object | griffe.Alias, path: str, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    name = path.split(".")[-1] if "Stream." not in path else path.split(".", path.count(".") - 1)[-1]
    yield _signature(item, name), _first_sentence(item)
    if not item.is_class:
        return
    members = item.all_members if options.get("inherited_members") else item.members
    wanted = options.get("members")
    order = wanted or list(members)
    for name, member in sorted(members.items(), key=lambda pair: order.index(pair[0]) if pair[0] in order else 0):
        public = not name.startswith("_") and (wanted is None or name in wanted)
        if public and not member.is_module and member.has_docstring:
            dot = "" if _is_mapping(item) else "."
            yield f"{dot}{_signature(member, name)}", _first_sentence(member)


def _is_mapping(item: griffe.Object | griffe.Alias) -> bool:
    """Return whether a class says what keywords there are."""
    return any(str(base) == "TypedDict" for base in item.bases)


def _signature(item: griffe.Object | griffe.Alias, name: str) -> str:
    """Return a call with its parameters and defaults, or the name of what is not called."""
    if item.is_class:
        maker = item.all_members.get("__init__")
        named = maker is not None and maker.is_function and not str(maker.path).startswith("builtins")
        return f"{name}({_parameters(maker)})" if named and maker is not None else name
    if item.is_function:
        return f"{name}({_parameters(item)})"
    return name


def _parameters(function: Any) -> str:
    shown: list[str] = []
    starred = False
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not starred:
            shown.append("*")
            starred = True
        if kind is griffe.ParameterKind.var_positional:
            shown.append(f"*{parameter.name}")
            starred = True
        elif kind is griffe.ParameterKind.var_keyword:
            shown.append(f"**{parameter.name}")
        else:
            default = "" if parameter.default is None else f"={parameter.default}"
            shown.append(f"{parameter.name}{default}")
    return ", ".join(shown)


def _first_sentence(item: griffe.Object | griffe.Alias) -> str:
    """Return the first paragraph of a docstring up to its first full stop, as a cell of a table."""
    text = item.docstring.value.split("\n\n")[0] if item.docstring is not None else ""
    text = " ".join(text.split())
    sentence = re.split(r"(?<=\.)\s(?=[A-Z`])", text)[0] if text else ""
    return sentence.replace("``", "`").replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


if __name__ == "__main__":
    main()
