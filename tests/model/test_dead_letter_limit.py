"""How many bad records are borne: what the option means, and when an operator has met too many."""

from typing import Any

import pytest

from penstock.model.dead_letter_limit import (
    DEFAULT_LIMIT,
    NO_LIMIT,
    DeadLetterLimit,
    RejectedRows,
    dead_letter_limit,
)
from penstock.model.errors import OptionError


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (100, DeadLetterLimit(count=100)),
        ("100", DeadLetterLimit(count=100)),
        (0, DeadLetterLimit(count=0)),
        (0.05, DeadLetterLimit(share=0.05)),
        ("5%", DeadLetterLimit(share=0.05)),
        ("0.05", DeadLetterLimit(share=0.05)),
        ("2.5 %", DeadLetterLimit(share=0.025)),
        ("any", NO_LIMIT),
        (None, NO_LIMIT),
        (DEFAULT_LIMIT, DEFAULT_LIMIT),
    ],
)
def test_a_limit_is_a_count_a_share_or_none(value: Any, limit: DeadLetterLimit) -> None:
    assert dead_letter_limit(value) == limit


@pytest.mark.parametrize("value", [-1, 1.5, "150%", True, "few", "", float("nan"), [1]])
def test_anything_else_is_refused_with_what_may_stand_there(value: Any) -> None:
    with pytest.raises(OptionError, match=r'max_dead_letters is a count such as 100, a share such as "5%" or 0.05'):
        dead_letter_limit(value)


def test_a_limit_says_what_the_user_wrote() -> None:
    written = [DeadLetterLimit(count=1000), DeadLetterLimit(share=0.05), DeadLetterLimit(share=0.0025), NO_LIMIT]
    assert [str(limit) for limit in written] == ["1,000", "5%", "0.25%", "any"]


@pytest.mark.parametrize(
    ("rows", "rejected", "ended", "fails"),
    [
        (999, 999, False, False),
        (1_000, 1_000, False, True),
        (3, 3, True, True),
        (3, 2, True, False),
        (0, 0, True, False),
    ],
)
def test_by_default_all_of_the_first_rows_are_too_many(rows: int, rejected: int, ended: bool, fails: bool) -> None:
    assert (RejectedRows(rows, rejected).excess(DEFAULT_LIMIT, ended=ended) is not None) is fails
    assert RejectedRows(rows, rejected).excess(DEFAULT_LIMIT, ended=ended, handled=True) is None


def test_a_count_is_of_all_rows_since_the_start() -> None:
    limit = dead_letter_limit(2)
    assert RejectedRows(10, 2).excess(limit, ended=True) is None
    assert RejectedRows(10, 3).excess(limit, ended=False) == "3 of its 10 records are bad"


def test_a_share_means_something_after_a_thousand_rows_or_at_the_end() -> None:
    limit = dead_letter_limit("5%")
    assert RejectedRows(999, 999).excess(limit, ended=False) is None
    assert RejectedRows(999, 50).excess(limit, ended=True) is not None
    assert RejectedRows(1_000, 50).excess(limit, ended=False) is None
    assert RejectedRows(1_000, 51).excess(limit, ended=False) is not None


def test_a_long_good_past_does_not_outweigh_a_bad_stretch() -> None:
    limit, rows = dead_letter_limit("5%"), RejectedRows()
    rows.rows, rows.rejected = 1_000_000_000, 1
    assert rows.excess(limit, ended=False) is None
    rows.rows, rows.rejected = 1_000_009_999, 9_999
    assert rows.excess(limit, ended=False) is None
    rows.rows, rows.rejected = 1_000_010_000, 10_001
    assert rows.excess(limit, ended=False) == "10,000 of its last 10,000 records are bad"


def test_no_limit_bears_everything() -> None:
    assert RejectedRows(10**9, 10**9).excess(NO_LIMIT, ended=True) is None
