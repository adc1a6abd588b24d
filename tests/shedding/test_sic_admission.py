"""Rows kept of each query become stretches of a partition: the oldest records are dropped first."""

import numpy as np
import pytest

from penstock.model.sic import Admission, SicGroup
from penstock.shedding.sic_admission import admissions

FIRST = SicGroup("numbers", (0,), ("all>few",), 0.0)
SECOND = SicGroup("numbers", (1,), ("all>ids",), 0.0)
REST = SicGroup("numbers", (2,), (), 0.0)


def test_the_oldest_records_of_one_query_are_dropped() -> None:
    assert admissions(10, [(FIRST, 4)]) == [Admission(6, False), Admission(4, True)]
    assert admissions(10, [(FIRST, 10)]) == [Admission(10, True)]
    assert admissions(10, [(FIRST, 0)]) == [Admission(10, False)]
    assert admissions(0, [(FIRST, 0)]) == []


def test_a_record_that_one_query_keeps_is_dropped_at_the_branch_of_the_other() -> None:
    assert admissions(10, [(FIRST, 4), (SECOND, 7)]) == [
        Admission(3, False),
        Admission(3, True, ("all>few",)),
        Admission(4, True),
    ]


def test_queries_without_a_branch_of_their_own_get_what_others_keep() -> None:
    assert admissions(10, [(FIRST, 7), (REST, 2)]) == [Admission(3, False), Admission(7, True)]


@pytest.mark.parametrize("seed", range(20))
def test_every_record_is_read_once_and_each_query_gets_its_share(seed: int) -> None:
    random = np.random.default_rng(seed)
    records = int(random.integers(1, 1_000))
    kept = [(group, int(random.integers(0, records + 1))) for group in (FIRST, SECOND)]
    made = admissions(records, kept)
    assert sum(stretch.records for stretch in made) == records
    for group, rows in kept:
        dropped = set(group.branches)
        got = sum(each.records for each in made if each.is_kept and dropped.isdisjoint(each.dropped_at))
        assert got == rows
