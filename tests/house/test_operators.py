"""A kind of operator is known to its spec, its verb, its descriptor and its Spark form, and to nothing else."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.operators.registry import descriptor_of
from penstock.model.errors import BugError
from penstock.model.job_graph import OperatorSpec
from tests.operator_specs import spec_classes

ROOT = Path(__file__).resolve().parents[2]

HOMES = ("model/", "engine/operators/", "penstock/", "replay/operators/")
"""Where specs are defined, operators carry them out, verbs make them and Spark computes them."""

RULES = {
    "engine/executors/simulation/random_rates.py": {"BranchSpec"},
    "engine/plan/branch_shedders.py": {"BranchSpec"},
    "engine/plan/estimates.py": {"ProjectSpec"},
    "engine/plan/optimiser.py": {"FilterSpec", "JoinSpec", "ProjectSpec"},
    "engine/plan/pruning.py": {"ProjectSpec"},
    "engine/plan/shedding_points.py": {"BranchSpec"},
}
"""What is about certain operators by its nature: which of two neighbours go together, and how."""

ENDS = {"SourceSpec", "SinkSpec"}
"""Every job has both, and connectors, positions, receipts and leases are about them."""

NEUTRAL = (
    "engine/operators/descriptor.py",
    "engine/operators/registry.py",
    "engine/operators/state_descriptions.py",
    "engine/operators/descriptions.py",
    "replay/operators/registry.py",
)
"""Files in those homes that are about operators of all kinds."""


def names_in(path: Path) -> set[str]:
    """Return the names that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}


def product_files() -> Iterator[tuple[str, Path]]:
    for layer in ("model", "state", "shedding", "scheduler", "engine", "replay"):
        for path in (ROOT / layer).rglob("*.py"):
            yield path.relative_to(ROOT).as_posix(), path
    for path in (ROOT / "penstock").glob("*.py"):
        yield path.relative_to(ROOT).as_posix(), path


def test_nothing_else_names_an_operator_by_its_spec() -> None:
    specs = {spec.__name__ for spec in spec_classes()} - ENDS
    elsewhere = {
        name: named
        for name, path in product_files()
        if not name.startswith(HOMES) and (named := (names_in(path) & specs) - RULES.get(name, set()))
    }
    assert elsewhere == {}


def test_rules_are_about_the_operators_that_they_are_said_to_be_about() -> None:
    assert {name: names_in(ROOT / name) & named for name, named in RULES.items()} == RULES


@pytest.mark.parametrize("name", NEUTRAL)
def test_what_is_for_all_operators_names_none(name: str) -> None:
    assert names_in(ROOT / name) & {spec.__name__ for spec in spec_classes()} == set()


class UnheardOfSpec(OperatorSpec):
    pass


def test_a_spec_that_nobody_describes_is_a_bug_with_a_remedy() -> None:
    with pytest.raises(BugError, match="no operator is described for UnheardOfSpec; add its descriptor to OPERATORS"):
        descriptor_of(UnheardOfSpec())
