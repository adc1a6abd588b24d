"""The pages that say how to add to Penstock: followed word by word in a copy, what they add works there."""

from pathlib import Path

import pytest

from tests.docs.followed import Followed, change, follow
from tests.docs.pages import ROOT
from tests.long_cases import but_for

HOW_TO = ROOT / "docs" / "how-to"

SUITES = {
    "add-a-connector.md": (
        "tests/house/test_exports.py",
        "tests/penstock/test_import_time.py::test_type_checkers_see_the_same_names",
    ),
    "add-an-operator.md": (
        "tests/engine/operators/test_descriptors.py::test_every_spec_has_one_descriptor_and_every_descriptor_one_line",
        "tests/engine/operators/test_descriptors.py::test_a_descriptor_describes_what_was_asked_for[without_state]",
        "tests/engine/operators/test_descriptors.py::test_the_columns_that_it_needs_suffice[without_state]",
        "tests/engine/operators/test_descriptors.py::test_columns_that_show_where_rows_lie_are_in_the_result[without_state]",
        "tests/replay/test_forms.py",
        "tests/house/test_operators.py",
    ),
    "add-a-policy.md": (
        "tests/scheduler/test_hostile_plans.py::test_nothing_raises_and_no_plan_leaves_its_quotas[threshold]",
        "tests/benchmarks/papers/test_steady.py::test_every_policy_has_a_line",
        "tests/benchmarks/papers/test_tick_cost.py::test_a_policy_decides_on_what_it_has_measured[threshold]",
        "tests/engine/control/test_decision_replay.py::test_every_policy_comes_back_from_its_parameters[threshold]",
    ),
}
"""The suites of the project that take in what the page adds."""

pytestmark = pytest.mark.xdist_group("snippets")


@pytest.fixture(scope="module", params=SUITES)
def followed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Followed]:
    """A page, and a copy of the project that is as it says."""
    return request.param, follow(HOW_TO / request.param, tmp_path_factory.mktemp("copy"))


def test_what_the_page_shows_is_what_comes_out(followed: tuple[str, Followed]) -> None:
    _, copy = followed
    programs = [name for name in copy.files if "/" not in name and name.endswith(".py")]
    printed = [text for program in programs if (text := copy.run(program).strip())]
    assert printed == [text.strip() for text in copy.outputs]


@pytest.mark.parametrize(
    "followed",
    but_for(SUITES, ["add-a-policy.md"], "suites that make test has itself, once more in a copy; [add-a-policy] stays"),
    indirect=True,
)
def test_its_tests_and_the_suites_pass(followed: tuple[str, Followed]) -> None:
    page, copy = followed
    tests = [name for name in copy.files if name.startswith("tests/") and not _needs_spark(copy.root / name)]
    assert tests
    copy.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, *SUITES[page])


@pytest.mark.slow
@pytest.mark.long("a Spark of its own in a copy; tests/replay has every form on Spark")
def test_it_is_replayed_on_spark(followed: tuple[str, Followed]) -> None:
    _, copy = followed
    tests = [name for name in copy.files if name.startswith("tests/") and _needs_spark(copy.root / name)]
    if tests:
        copy.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)


def test_its_files_keep_to_the_house_style(followed: tuple[str, Followed]) -> None:
    _, copy = followed
    inside = [name for name in copy.files if "/" in name]
    copy.run("-m", "ruff", "check", *inside)
    copy.run("-m", "ruff", "format", "--check", *inside)


def test_a_line_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    change(tmp_path, "--- a.py\n x = 1\n+z = 3\n")
    assert (tmp_path / "a.py").read_text() == "x = 1\nz = 3\ny = 2\n"
    with pytest.raises(AssertionError, match=r"a\.py has these lines 0 times, not once"):
        change(tmp_path, "--- a.py\n-x = 2\n+x = 3\n")


def _needs_spark(test: Path) -> bool:
    return "pyspark" in test.read_text(encoding="utf-8")
