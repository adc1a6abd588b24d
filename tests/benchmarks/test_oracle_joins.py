"""The oracle's joins mean what the reference means, on rows small enough to check by hand."""

from pathlib import Path

import pytest

from tests.benchmarks.oracle import ReadSoFar
from tests.benchmarks.small_data import Case


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_bids_count_from_the_first_to_the_last_instant_of_their_auction(case: Case) -> None:
    case.add("auction", id=1, category=10, dateTime=1000, expires=2000)
    for price, time in ((9, 999), (3, 1000), (4, 2000), (8, 2001)):
        case.add("bid", auction=1, price=price, dateTime=time)
    assert case.ask("q4") == [(10, 4)]
    assert [row[12] for row in case.ask("q9")] == [4]


def test_means_per_category_are_truncated(case: Case) -> None:
    for auction, category in {1: 10, 2: 10, 3: 11, 4: 12}.items():
        case.add("auction", id=auction, category=category, expires=10)
    for auction, price in ((1, 5), (1, 3), (2, 2), (3, 7)):
        case.add("bid", auction=auction, price=price)
    # Auction 4 had no bid.
    assert case.ask("q4") == [(10, 3), (11, 7)]


def test_the_last_ten_closed_auctions_count(case: Case) -> None:
    for auction in range(12):
        # Auctions 0 to 3 close together: 2 and 3 are the later ones.
        case.add("auction", id=auction, seller=1, expires=max(auction, 3) * 10)
        case.add("bid", auction=auction, price=100 * (auction + 1), dateTime=5)
    case.add("auction", id=20, seller=2, expires=1000)
    case.add("bid", auction=20, price=7, dateTime=500)
    assert case.ask("q6") == [(1, sum(range(300, 1300, 100)) // 10), (2, 7)]
    # The watermark is the auctions', 0, then the bids', 500: auction 20 is open.
    read = {"auction": 13, "bid": 13}
    assert case.ask("q6", ReadSoFar(read, 0)) == []
    assert case.ask("q6", ReadSoFar(read, 0, frozenset({"auction"}))) == [(1, 750)]
    # An auction closes when the watermark is past its last instant: 110 is not.
    assert case.ask("q6", ReadSoFar(read, 390, frozenset({"auction"}))) == [(1, sum(range(200, 1200, 100)) // 10)]
    assert case.ask("q6", ReadSoFar(read, 389, frozenset({"auction"}))) == [(1, 750)]
    assert len(case.ask("q6", ReadSoFar(read, 0, frozenset({"auction", "bid"})))) == 2


def test_ties_for_the_best_bid_go_to_time_bidder_and_extra(case: Case) -> None:
    for auction in (1, 2, 3, 4):
        case.add("auction", id=auction, expires=100)
    bids = {
        1: [(9, 5, 1, "low"), (10, 50, 7, "best")],
        2: [(10, 6, 1, "later"), (10, 5, 7, "best")],
        3: [(10, 5, 2, "other"), (10, 5, 1, "best")],
        4: [(10, 5, 1, "extra"), (10, 5, 1, "best")],
    }
    for auction, rows in bids.items():
        for price, time, bidder, extra in rows:
            case.add("bid", auction=auction, price=price, dateTime=time, bidder=bidder, extra=extra)
    answer = case.ask("q9")
    assert [row[0] for row in answer] == [row[10] for row in answer] == [1, 2, 3, 4]
    assert {row[14] for row in answer} == {"best"}


def test_the_side_table_is_asked_for_the_last_four_digits(case: Case) -> None:
    for auction in (7, 10_007, 129_999):
        case.add("bid", auction=auction)
    assert [row[4] for row in case.ask("q13")] == ["7", "7", "9999"]


def test_bids_find_their_auction_of_category_10_at_any_time(case: Case) -> None:
    case.add("bid", auction=1, price=5, dateTime=0, extra="before")
    case.add("bid", auction=2, price=5, dateTime=0, extra="other category")
    case.add("bid", auction=3, price=5, dateTime=0, extra="no auction")
    case.add("bid", auction=1, price=5, dateTime=99, extra="after")
    case.add("auction", id=1, category=10, dateTime=50, expires=60, itemName="lamp")
    case.add("auction", id=2, category=11, dateTime=50)
    assert [(row[6], row[7]) for row in case.ask("q20")] == [("before", "lamp"), ("after", "lamp")]
    assert case.ask("q20", ReadSoFar({"bid": 4}, 0)) == []


def test_bids_of_sellers_meet_each_of_their_auctions(case: Case) -> None:
    for person in (1, 2):
        case.add("person", id=person, name=f"no. {person}")
    for auction, seller in {10: 1, 11: 1, 12: 2, 13: 3}.items():
        case.add("auction", id=auction, seller=seller, itemName=f"item {auction}")
    for bidder, price in ((1, 5), (1, 6), (3, 7), (4, 8)):
        case.add("bid", bidder=bidder, price=price)
    found = {(row[0], row[1], row[6], row[12]) for row in case.ask("q23")}
    # Bidder 3 sells but never registered; 2 sells but never bids.
    assert found == {(1, price, "no. 1", item) for price in (5, 6) for item in ("item 10", "item 11")}
