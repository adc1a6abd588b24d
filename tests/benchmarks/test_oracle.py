"""The oracle's SQL means what the reference means, on rows small enough to check by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.benchmarks.oracle import QUERIES, ReadSoFar, expected
from tests.benchmarks.small_data import Case

BID = ["auction", "bidder", "price", "channel", "url", "dateTime", "extra"]
AUCTION = ["id", "itemName", "description", "initialBid", "reserve", "dateTime", "expires", "seller", "category"]
RANKS = [
    f"{rank}_{nouns}" for nouns in ("bids", "bidders", "auctions") for rank in ("total", "rank1", "rank2", "rank3")
]
LOT = ["itemName", "description", "initialBid", "reserve", "auction_dateTime", "expires", "seller", "category"]
PERSON = ["person_id", "name", "emailAddress", "creditCard", "city", "state", "person_extra"]
SINKS = {
    "q0": ["auction", "bidder", "price", "dateTime", "extra"],
    "q1": ["auction", "bidder", "price", "dateTime", "extra"],
    "q2": ["auction", "price"],
    "q3": ["name", "city", "state", "id"],
    "q4": ["id", "final"],
    "q5": ["auction", "num"],
    "q6": ["seller", "avg_price"],
    "q7": ["auction", "bidder", "price", "dateTime", "extra"],
    "q8": ["id", "name", "stime"],
    "q9": [*AUCTION, "extra", "auction", "bidder", "price", "bid_dateTime", "bid_extra"],
    "q10": ["auction", "bidder", "price", "dateTime", "extra", "dt", "hm"],
    "q11": ["bidder", "bid_count", "starttime", "endtime"],
    "q13": ["auction", "bidder", "price", "dateTime", "value"],
    "q14": ["auction", "bidder", "price", "bidTimeType", "dateTime", "extra", "c_counts"],
    "q15": ["day", *RANKS],
    "q16": ["channel", "day", "minute", *RANKS],
    "q17": [
        "auction",
        "day",
        "total_bids",
        "rank1_bids",
        "rank2_bids",
        "rank3_bids",
        "min_price",
        "max_price",
        "avg_price",
        "sum_price",
    ],
    "q18": BID,
    "q19": [*BID, "rank_number"],
    "q20": [*BID[:5], "bid_dateTime", "bid_extra", *LOT, "auction_extra"],
    "q21": ["auction", "bidder", "price", "channel", "channel_id"],
    "q22": ["auction", "bidder", "price", "channel", "dir1", "dir2", "dir3"],
    "q23": [*BID[1:5], "bid_extra", *PERSON, *LOT, "auction_extra"],
}
HOUR_MS = 3_600_000


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@pytest.mark.parametrize("query", QUERIES)
def test_columns_are_the_sinks(case: Case, query: str) -> None:
    case.ask(query)
    answer = expected(query, case.directory)
    assert answer.column_names == SINKS[query]
    for field in answer.schema:
        if pa.types.is_timestamp(field.type):
            assert field.type == pa.timestamp("ms")
        elif pa.types.is_decimal(field.type):
            assert field.type == pa.decimal128(23, 3)
        else:
            assert field.type in (pa.int64(), pa.string())


def test_prices_in_euros_are_exact(case: Case) -> None:
    case.add("bid", price=1)
    case.add("bid", price=100_000_000)
    assert sorted(str(row[2]) for row in case.ask("q1")) == ["0.908", "90800000.000"]


def test_every_hop_reports_its_busiest_auctions(case: Case) -> None:
    for auction, times in {1: (0, 1999), 2: (2000, 9000), 3: (2500,)}.items():
        for time in times:
            case.add("bid", auction=auction, dateTime=time)
    # The windows end at 2, 4, ... 18 s; auctions 1 and 2 tie in the one that ends at 10 s.
    ends_2_to_8 = [(1, 2)] * 4
    ends_10_to_18 = [(1, 2), (2, 2), (2, 2)] + [(2, 1)] * 3
    assert case.ask("q5") == sorted(ends_2_to_8 + ends_10_to_18)
    read = {"bid": 5}
    assert case.ask("q5", ReadSoFar(read, delay_ms=1000)) == [(1, 2)] * 4
    assert case.ask("q5", ReadSoFar(read, delay_ms=1001)) == [(1, 2)] * 3
    assert len(case.ask("q5", ReadSoFar(read, 0, ended=frozenset({"bid"})))) == 10
    assert case.ask("q5", ReadSoFar({}, delay_ms=0)) == []


def test_a_bid_at_the_end_of_a_window_joins_its_top(case: Case) -> None:
    case.add("bid", auction=1, bidder=7, price=50, dateTime=9000, extra="top")
    case.add("bid", auction=2, bidder=8, price=50, dateTime=10_000, extra="at the end")
    case.add("bid", auction=3, bidder=9, price=60, dateTime=12_000, extra="next")
    case.add("bid", auction=4, bidder=9, price=50, dateTime=12_000, extra="low")
    assert [row[4] for row in case.ask("q7")] == ["top", "at the end", "next"]
    assert case.ask("q7")[0] == (1, 7, 50, 9000, "top")
    assert [row[4] for row in case.ask("q7", ReadSoFar({"bid": 4}, 2000))] == ["top", "at the end"]
    assert case.ask("q7", ReadSoFar({"bid": 4}, 2001)) == []


def test_new_sellers_are_told_once_a_window(case: Case) -> None:
    case.add("person", id=1, name="Ann", dateTime=0)
    case.add("person", id=2, name="Bob", dateTime=9999)
    case.add("person", id=3, name="Cleo", dateTime=12_000)
    for seller, time in ((1, 5000), (1, 9999), (2, 10_000), (3, 11_000)):
        case.add("auction", seller=seller, dateTime=time)
    assert case.ask("q8") == [(1, "Ann", 0), (3, "Cleo", 10_000)]
    read = {"person": 3, "auction": 4}
    assert case.ask("q8", ReadSoFar(read, 1000)) == [(1, "Ann", 0)]
    # The slower of the two inputs decides.
    assert case.ask("q8", ReadSoFar(read, 1001)) == []
    assert case.ask("q8", ReadSoFar(read, 1001, frozenset({"auction"}))) == [(1, "Ann", 0)]
    assert len(case.ask("q8", ReadSoFar(read, 0, frozenset({"auction", "person"})))) == 2


def test_sellers_are_found_before_and_after_their_auctions(case: Case) -> None:
    case.add("auction", id=10, seller=1, category=10)
    case.add("auction", id=11, seller=1, category=11)
    case.add("auction", id=12, seller=2, category=10)
    case.add("person", id=2, name="Bob", city="Bend", state="OR")
    case.add("person", id=1, name="Ann", city="Kent", state="WA")
    assert case.ask("q3") == [("Bob", "Bend", "OR", 12)]
    assert case.ask("q3", ReadSoFar({"auction": 2, "person": 2}, 4000)) == []


def test_a_bid_exactly_one_gap_later_joins_the_session(case: Case) -> None:
    for bidder, times in {1: (0, 10_000, 20_001), 2: (5000,)}.items():
        for time in times:
            case.add("bid", bidder=bidder, dateTime=time)
    first, second, other = (1, 2, 0, 20_000), (1, 1, 20_001, 30_001), (2, 1, 5000, 15_000)
    assert case.ask("q11") == [second, first, other]
    # At W = 20,000 a bid at 20,000 may still come and join; at 20,001 it may not.
    read = {"bid": 4}
    case.rows["bid"].sort(key=lambda row: row["dateTime"])
    assert case.ask("q11", ReadSoFar(read, delay_ms=0)) == [first, other]
    assert case.ask("q11", ReadSoFar(read, delay_ms=1)) == [other]
    assert case.ask("q11", ReadSoFar({"bid": 2}, delay_ms=0)) == []


def test_times_of_day(case: Case) -> None:
    hours = range(24)
    for hour in hours:
        case.add("bid", auction=hour, price=2_000_000, dateTime=hour * HOUR_MS, extra="cacao")
    case.add("bid", price=1_101_321, extra="too low")
    case.add("bid", price=55_066_080, extra="too high")
    answer = case.ask("q14")
    kinds = [row[3] for row in answer]
    assert kinds == ["nightTime"] * 7 + ["otherTime"] + ["dayTime"] * 11 + ["otherTime"] + ["nightTime"] * 4
    assert {(str(row[2]), row[6]) for row in answer} == {("1816000.000", 2)}
    minutes = [row[5:] for row in case.ask("q10")]
    assert (minutes[0], minutes[-1]) == (("1970-01-01", "00:00"), ("1970-01-01", "23:00"))


def test_daily_figures(case: Case) -> None:
    for price in (9999, 10_000, 999_999, 1_000_000, 4):
        case.add("bid", auction=1, price=price, dateTime=24 * HOUR_MS - 1)
    case.add("bid", auction=1, price=5, dateTime=24 * HOUR_MS)
    assert case.ask("q17") == [
        (1, "1970-01-01", 5, 2, 2, 1, 4, 1_000_000, 404_000, 2_020_002),
        (1, "1970-01-02", 1, 1, 0, 0, 5, 5, 5, 5),
    ]


def rows_by_auction(rows: Sequence[tuple[Any, ...]]) -> dict[int, tuple[Any, ...]]:
    return {row[0]: row[4:] for row in rows}


def test_channels_and_folders(case: Case) -> None:
    base = "https://www.nexmark.com/a/b_/c/item.htm?query=1"
    case.add("bid", auction=1, channel="GOOGLE", url=base + "&channel_id=77")
    case.add("bid", auction=2, channel="channel-5", url=base + "&channel_id=77&x=1")
    case.add("bid", auction=3, channel="channel-6", url=base)
    case.add("bid", auction=4, channel="channel-7", url="channel_id=")
    case.add("bid", auction=5, channel="Apple", url="a//b/c//")
    assert rows_by_auction(case.ask("q21")) == {1: ("1",), 2: ("77",), 4: ("",), 5: ("0",)}
    folders = rows_by_auction(case.ask("q22"))
    assert folders[3] == ("a", "b_", "c")
    assert folders[4] == (None, None, None)
    assert folders[5] == ("c", "", "")


def test_only_rows_read_so_far_count(case: Case) -> None:
    for auction in range(10):
        case.add("bid", auction=auction)
    assert [row[0] for row in case.ask("q0", ReadSoFar({"bid": 4}, 4000))] == [0, 1, 2, 3]
