"""When a node sheds: equation 5.1, and bursts that are none of its business (docs/design/papers/dissp.md 3)."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import NoChange, not_measured
from penstock.shedding.cost_model import IntervalHistory, PaperCost, UsefulCost
from penstock.shedding.overload import (
    BufferHistory,
    BufferSize,
    Detector,
    MeanDetector,
    Overload,
    PaperDetector,
    n_discard,
    with_check,
)
from tests.papers_cases import cases

N = 4000
DETECTORS = [PaperDetector(), MeanDetector(), MeanDetector(limit_bytes=1000)]


def shed_at(detector: Detector, arrivals: list[float], *, during: bool = True) -> list[int]:
    """Return the checks at which a node that can do N an interval sheds; arrivals are in N.

    ``during``: they come in the course of the interval, so that what there is time for is done by the check; else at
    its end.
    """
    backlog, sizes, checks = 0.0, BufferHistory(), []
    for number, arriving in enumerate(arrivals):
        backlog = max(0.0, backlog + arriving - 1) if during else max(0.0, backlog - 1) + arriving
        waiting = BufferSize(round(backlog * N))
        decision = detector.detect(waiting, float(N), sizes)
        if isinstance(decision, Overload):
            checks.append(number)
            backlog = decision.n_to_keep / N
        sizes = with_check(sizes, waiting, decision)
    return checks


@given(ib_size=st.integers(0, 10**7), n_tuples=st.floats(0, 1e6), rows=st.lists(st.integers(0, 10**7), max_size=4))
@settings(max_examples=cases())
@pytest.mark.parametrize("detector", DETECTORS)
def test_nothing_is_dropped_unless_there_is_too_much(
    detector: Detector, ib_size: int, n_tuples: float, rows: list[int]
) -> None:
    decision = detector.detect(
        BufferSize(ib_size, bytes=ib_size), n_tuples, BufferHistory(tuple(rows), rows[-1] if rows else 0)
    )
    if n_discard(ib_size, n_tuples) <= 0:
        assert isinstance(decision, NoChange)
    if isinstance(decision, Overload):
        assert decision.n_to_keep <= n_tuples < ib_size
        assert decision.numbers["n_discard"] == ib_size - n_tuples
    elif isinstance(detector, PaperDetector):
        assert ib_size <= n_tuples


@pytest.mark.parametrize("during", [True, False])
@given(before=st.integers(0, 9), load=st.floats(0, 0.5), extra=st.floats(0, 2))
@settings(max_examples=cases())
def test_one_burst_on_a_half_loaded_node_sheds_nothing(during: bool, before: int, load: float, extra: float) -> None:
    arrivals = [load] * before + [load + extra] + [load] * 9
    assert shed_at(MeanDetector(), arrivals, during=during) == []
    # The literal detector takes the same batch for an overload.
    literal = shed_at(PaperDetector(), [0.5] * 5 + [2.5] + [0.5] * 5, during=during)
    assert literal != []


@pytest.mark.parametrize("during", [True, False])
@given(before=st.integers(0, 9), load=st.floats(0, 0.9), by=st.floats(1.5, 5))
@settings(max_examples=cases())
def test_sustained_overload_sheds_within_a_second(during: bool, before: int, load: float, by: float) -> None:
    checks = shed_at(MeanDetector(), [load] * before + [by] * 40, during=during)
    assert checks and before <= checks[0] < before + 4
    # From then on at every check: nothing is left to pile up.
    assert checks == list(range(checks[0], before + 40))


@given(st.floats(1.01, 1.5))
@settings(max_examples=cases())
def test_a_small_overload_is_not_let_grow(by: float) -> None:
    checks = shed_at(MeanDetector(), [by] * 400)
    assert checks
    gaps = [late - early for early, late in pairwise(checks)]
    # The mean passes its limit once the backlog is about 1.2 + 1.5 (by - 1) N_tuples.
    assert max(gaps) <= (0.2 + 2.5 * (by - 1)) / (by - 1) + 1


def test_a_backlog_that_falls_too_slowly_is_shed() -> None:
    assert shed_at(MeanDetector(), [0.99] * 5 + [50.99] + [0.99] * 5)[0] == 5
    # Too much for the mean, and seven intervals of draining.
    assert shed_at(MeanDetector(), [0.5] * 5 + [4.6] + [0.5] * 9) == [6]


def test_bytes_have_a_limit_of_their_own() -> None:
    detector = MeanDetector(limit_bytes=1000)
    assert isinstance(detector.detect(BufferSize(2 * N, bytes=1001), float(N), BufferHistory()), Overload)
    assert isinstance(detector.detect(BufferSize(2 * N, bytes=1000), float(N), BufferHistory()), NoChange)


def test_a_mean_of_more_checks_than_are_remembered_is_refused() -> None:
    for checks in (0, 41):
        with pytest.raises(ValueError, match=f"a mean of {checks} checks"):
            MeanDetector(checks=checks)


def test_what_was_not_measured_changes_nothing() -> None:
    for detector in DETECTORS:
        assert detector.detect(BufferSize(10**9, bytes=0), None, BufferHistory()) == not_measured("cost of a tuple")
    unknown = MeanDetector(limit_bytes=1000).detect(BufferSize(10**9), float(N), BufferHistory())
    assert unknown == not_measured("bytes in the input buffer")


def test_the_flaw_of_elapsed_time_makes_bursts_look_like_overload() -> None:
    idle = IntervalHistory()
    for _ in range(40):
        idle = idle.after(250, 125, N // 2)
    waiting = BufferSize(N - 1)
    for model, sheds in ((PaperCost(), True), (UsefulCost(), False)):
        decision = PaperDetector().detect(waiting, model.n_tuples(idle), BufferHistory())
        assert isinstance(decision, Overload) is sheds
