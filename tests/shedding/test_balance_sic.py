"""Where queries stand, at a node by itself and across nodes (docs/design/papers/dissp.md 4, 5)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.balance_sic import (
    CoordinatorReport,
    coordinator_report,
    global_standing,
    local_standing,
    source_keep,
)
from penstock.shedding.sic_ledger import SicLedger
from tests.papers_cases import cases

SEEDS = st.integers(0, 2**32 - 1)
ONES = np.ones(2)


def ledger_of(entries: np.ndarray, window: int) -> SicLedger:
    ledger = SicLedger.empty(window, entries.shape[1])
    for entry in entries:
        ledger = ledger.after(entry)
    return ledger


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_a_node_by_itself_counts_what_will_still_be_in_the_window(seed: int) -> None:
    random = np.random.default_rng(seed)
    window, passed = int(random.integers(1, 8)), int(random.integers(0, 15))
    arrived = random.random((passed, 2))
    admitted = arrived * random.random((passed, 2))
    waiting = random.random(2)
    standing = local_standing(ledger_of(admitted, window), ledger_of(arrived, window), waiting, ONES)
    valid = slice(max(0, passed - window + 1), None) if window > 1 else slice(passed, None)
    np.testing.assert_allclose(standing.proj, admitted[valid].sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(standing.norm, arrived[valid].sum(axis=0) + waiting)
    # If everything that waits is admitted too, nobody has more than there was.
    assert (standing.proj + waiting <= standing.norm + 1e-12).all()


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_late_reports_and_what_was_admitted_since_make_the_whole_window(seed: int) -> None:
    random = np.random.default_rng(seed)
    window = int(random.integers(2, 9))
    delay = int(random.integers(0, window))
    passed = int(random.integers(delay, 20))
    admitted = random.random((passed, 2))
    # One node, and results at once: what coordinators saw until the report is what was admitted until then.
    results = ledger_of(admitted[: passed - delay], window)
    generated = ledger_of(np.ones((passed - delay, 2)), window)
    told = coordinator_report(passed - delay, results, generated, ahead=delay + 1)
    standing = global_standing(told, passed, ledger_of(admitted, window), np.zeros(2), ONES)
    np.testing.assert_allclose(standing.proj, ledger_of(admitted, window).still_valid(1), atol=1e-12)
    np.testing.assert_allclose(standing.norm, min(window, passed - delay))
    # What is in flight and counted on both sides is taken off once, and nobody stands below nothing.
    twice = random.random(2) * 3
    corrected = global_standing(told, passed, ledger_of(admitted, window), twice, ONES)
    np.testing.assert_allclose(corrected.proj, np.maximum(0, standing.proj - twice), atol=1e-12)


def test_a_report_of_now_needs_no_ledger() -> None:
    told = CoordinatorReport(7, 1, np.array([0.5, 0.25]), ONES)
    admitted = ledger_of(np.ones((7, 2)), 4)
    np.testing.assert_array_equal(global_standing(told, 7, admitted, np.zeros(2), ONES).proj, [0.5, 0.25])
    np.testing.assert_array_equal(global_standing(told, 9, admitted, np.zeros(2), ONES).proj, [2.5, 2.25])


@given(st.lists(st.one_of(st.floats(0, 1), st.just(float("nan"))), max_size=8), st.floats(0.01, 1))
@settings(max_examples=cases())
def test_sources_keep_a_share_that_is_one_for_all(n_sic: list[float], margin: float) -> None:
    keep = source_keep(np.array(n_sic), margin)
    known = [value for value in n_sic if not np.isnan(value)]
    assert 0.01 <= keep <= 1
    assert keep == (pytest.approx(min(1, max(0.01, (1 + margin) * sum(known) / len(known)))) if known else 1.0)


def test_sources_reach_everything_again_when_there_is_room() -> None:
    keep = source_keep(np.zeros(3), 0.1)
    for _ in range(60):
        keep = source_keep(np.full(3, keep), 0.1)
    assert keep == 1.0
