"""Which definitions of ours others lead to: names followed from definition to definition, without running anything."""

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def reached(starts: Iterable[str]) -> frozenset[str]:
    """Return the dotted names of top-level definitions that these lead to, themselves included.

    A definition leads to all that its text names; a class is one definition with its methods.
    """
    found: set[str] = set()
    left = list(starts)
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        module, _, own = name.rpartition(".")
        left += definitions(module).get(own, frozenset())
    return frozenset(found)


@cache
def definitions(module: str) -> Mapping[str, frozenset[str]]:
    """Return what each top-level definition of a module of ours names, by its own name; none of other modules."""
    path = _path(module)
    if path is None:
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported: dict[str, str] = {}
    own: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            imported |= {item.asname or item.name: f"{node.module}.{item.name}" for item in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            own[node.name] = node
            inside = (item for item in ast.walk(node) if isinstance(item, ast.ImportFrom) and item.module is not None)
            imported |= {
                name.asname or name.name: f"{item.module}.{name.name}" for item in inside for name in item.names
            }
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            own |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    here = {name: f"{module}.{name}" for name in own} | imported
    return {name: frozenset(_named(node, here)) for name, node in own.items()}


def _named(node: ast.stmt, here: Mapping[str, str]) -> set[str]:
    names = set()
    for item in ast.walk(node):
        if isinstance(item, ast.Name) and item.id in here:
            names.add(here[item.id])
        elif isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id in here:
            names.add(f"{here[item.value.id]}.{item.attr}")
    return names


def _path(module: str) -> Path | None:
    parts = module.split(".")
    if parts[0] != "penstock" or len(parts) < 2:
        return None
    path = ROOT / "penstock" / Path(*parts[1:])
    found = [each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()]
    return found[0] if found else None
