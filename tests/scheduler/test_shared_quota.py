"""Leases of jobs on one quota: what one gives up another may take, by priority; who is silent has none."""

import numpy as np
import pytest

from penstock.scheduler.shared_quota import Ask, Book, Lease, OtherHolding, others_of, renewed, taken, without


def test_what_one_gives_up_another_may_take() -> None:
    book = renewed(renewed({}, Lease("a", 3.0, 0.0), 0.0), Lease("b", 1.0, 0.0), 0.0)
    ask = Ask("b", 3.0, 0.0, most_cores=4.0)
    assert taken(book, ask, 1.0)["b"].cores == 1.0
    book = taken(book, Ask("a", 1.5, 0.0, most_cores=4.0), 2.0)
    assert book["a"].cores == 1.5 and taken(book, ask, 3.0)["b"].cores == 2.5


def test_a_lease_that_is_not_renewed_ends_with_its_term() -> None:
    book = renewed(renewed({}, Lease("a", 3.0, 7.0), 0.0), Lease("b", 1.0, 1.0), 0.0)
    ask = Ask("b", 4.0, 8.0, 4.0, 8.0)
    book = renewed(book, Lease("b", 1.0, 1.0), 9.0)
    assert taken(book, ask, 10.0)["b"].cores == 1.0
    later = taken(book, ask, 10.1)
    assert (later["b"].cores, later["b"].memory_bytes) == (4.0, 8.0) and set(later) == {"b"}


def test_what_a_job_of_higher_priority_waits_for_is_kept_for_it() -> None:
    book = renewed({}, Lease("low", 1.0, 0.0), 0.0)
    book = renewed(book, Lease("high", 1.0, 0.0, priority=1, wants_cores=3.0), 0.0)
    assert others_of(book, "low") == (OtherHolding("high", 3.0, 0.0),)
    assert others_of(book, "high") == (OtherHolding("low", 1.0, 0.0),)
    assert taken(book, Ask("low", 4.0, 0.0, 4.0), 1.0)["low"].cores == 1.0
    assert taken(book, Ask("high", 3.0, 0.0, 4.0), 1.0)["high"].cores == 3.0


def test_among_equals_who_has_wanted_longer_goes_first() -> None:
    book: Book = {}
    for second in range(3):
        book = renewed(book, Lease("b", 1.0, 0.0, wants_cores=2.0), float(second))
        if second:
            book = renewed(book, Lease("a", 1.0, 0.0, wants_cores=2.0), float(second))
    assert book["b"].wants_since_s == 0.0 and book["a"].wants_since_s == 1.0
    assert others_of(book, "a") == (OtherHolding("b", 2.0, 0.0),)
    assert others_of(book, "b") == (OtherHolding("a", 1.0, 0.0),)
    # Whoever has what it wanted waits no more, and begins anew when it wants again.
    book = renewed(renewed(book, Lease("b", 2.0, 0.0), 3.0), Lease("b", 2.0, 0.0, wants_cores=3.0), 4.0)
    assert book["b"].wants_since_s == 4.0


def test_a_job_without_a_lease_takes_nothing() -> None:
    with pytest.raises(KeyError):
        taken({}, Ask("a", 1.0, 1.0), 0.0)
    assert without(renewed({}, Lease("a", 1.0, 1.0), 0.0), "a") == {}


@pytest.mark.parametrize("seed", range(100))
def test_no_more_is_held_than_there_is(seed: int) -> None:
    """Jobs come, ask, shrink, fall silent: leases never add up to more than the quota, and none loses what it has."""
    draws = np.random.default_rng(seed)
    book: Book = {}
    most, now_s = 8.0, 0.0
    for _ in range(200):
        now_s += draws.uniform(0.0, 4.0)
        job = f"job-{draws.integers(4)}"
        if job not in book or now_s - book[job].renewed_s > book[job].term_s:
            book = renewed(book, Lease(job, 0.0, 0.0, priority=int(draws.integers(3))), now_s)
        before = book[job]
        match int(draws.integers(4)):
            case 0:
                wants = before.cores + draws.uniform(0.0, 4.0)
                lease = Lease(job, before.cores, 0.0, before.priority, wants_cores=wants)
                book = renewed(book, lease, now_s)
            case 1:
                book = without(book, job)
            case _:
                asked = draws.uniform(0.0, 6.0)
                book = taken(book, Ask(job, asked, 0.0, most), now_s)
                assert book[job].cores >= min(asked, before.cores)
                assert book[job].cores <= max(asked, before.cores)
        assert sum(lease.cores for lease in book.values()) <= most + 1e-9
