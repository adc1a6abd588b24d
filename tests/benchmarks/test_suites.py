"""Suites of ``make chaos`` in small: tests under the settings that a seed draws (docs/design/fault-tests.md M3)."""

import pytest

from tests.chaos.suites import suite

SOME = (
    "tests/penstock/dsl/test_job.py",
    "tests/penstock/dsl/test_stream.py",
    "tests/penstock/dsl/test_updating_windows.py",
    "tests/engine/connectors/local/test_memory_commits.py",
    "tests/engine/operators/joins/test_interval_join_sql.py",
    "tests/end_to_end/test_any_order.py",
    "tests/end_to_end/test_begin_elsewhere.py",
)


@pytest.mark.slow
@pytest.mark.long("suites that make test has itself; a suite that fails")
def test_a_suite_under_random_settings() -> None:
    report = suite([*SOME, "--random-settings=6"], {"PENSTOCK_ORDER_EXAMPLES": "5"}, 6)
    assert report.failure is None
    assert report.runs > 50


def test_a_suite_that_fails_says_what() -> None:
    report = suite(["tests/benchmarks/test_suites.py", "-k", "nothing_is_called_so"], {}, 1)
    assert report.failure is not None
    assert not report.exact
