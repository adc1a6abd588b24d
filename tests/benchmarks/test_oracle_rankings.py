"""The oracle's rankings and distinct counts mean what the reference means, on rows checked by hand."""

from pathlib import Path

import pytest

from tests.benchmarks.small_data import Case

DAY_MS = 86_400_000


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_bidders_and_auctions_count_once_in_each_rank(case: Case) -> None:
    # Bidder, auction and price; the ranks begin at 0, 10,000 and 1,000,000.
    for bidder, auction, price in ((1, 1, 9999), (1, 2, 10_000), (2, 2, 999_999), (2, 2, 1_000_000), (1, 1, 0)):
        case.add("bid", bidder=bidder, auction=auction, price=price, channel="a", dateTime=DAY_MS - 1)
    case.add("bid", bidder=1, auction=1, price=5, channel="b", dateTime=DAY_MS - 60_000)
    case.add("bid", bidder=1, auction=1, price=5, channel="b", dateTime=DAY_MS)
    second = (1, 1, 0, 0) * 3
    assert case.ask("q15") == [
        ("1970-01-01", 6, 3, 2, 1, 2, 1, 2, 1, 2, 1, 1, 1),
        ("1970-01-02", *second),
    ]
    assert case.ask("q16") == [
        ("a", "1970-01-01", "23:59", 5, 2, 2, 1, 2, 1, 2, 1, 2, 1, 1, 1),
        ("b", "1970-01-01", "23:59", *second),
        ("b", "1970-01-02", "00:00", *second),
    ]


def test_the_last_bid_is_the_greatest_by_its_columns(case: Case) -> None:
    for bidder, time, price, extra in (
        (1, 5, 9, "early"),
        (1, 6, 1, "low"),
        (1, 6, 2, "a"),
        (1, 6, 2, "b"),
        (2, 0, 0, ""),
    ):
        case.add("bid", auction=1, bidder=bidder, dateTime=time, price=price, extra=extra)
    case.add("bid", auction=2, bidder=1, extra="other auction")
    assert [(row[0], row[1], row[6]) for row in case.ask("q18")] == [(1, 1, "b"), (1, 2, ""), (2, 1, "other auction")]


def test_ten_bids_rank_by_price_then_by_their_columns(case: Case) -> None:
    for bidder in range(12, 0, -1):
        case.add("bid", auction=1, bidder=bidder, price=100)
    case.add("bid", auction=1, bidder=99, price=101)
    case.add("bid", auction=2, bidder=5, price=1, extra="same")
    case.add("bid", auction=2, bidder=5, price=1, extra="same")
    ranks = {(row[0], row[7]): row[1] for row in case.ask("q19")}
    assert ranks == {(1, 1): 99, **{(1, 1 + bidder): bidder for bidder in range(1, 10)}, (2, 1): 5, (2, 2): 5}
