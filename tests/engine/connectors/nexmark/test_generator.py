"""The Nexmark generator: the same rows however they are asked for, with the reference's shape."""

import hashlib
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.nexmark.generator import (
    KINDS,
    SCHEMAS,
    NexmarkConfig,
    generate,
    rows_before,
    rows_of_kind,
)
from penstock.model.errors import OptionError, SchemaError

ENDLESS = NexmarkConfig(events=None)
DIGESTS = {
    "person": "4d890f422d0e73337e8b92fce31129d65dccdbcbc91dec5a22b01c88aa750d1a",
    "auction": "39259c298e2709a85888ed2c5b75416912fb80a6f031601967882540cf5a083f",
    "bid": "e4537b4a9246066d7e63120260827cdf814598633673d785f15bc57d73fe7929",
}


def bids(config: NexmarkConfig, rows: int, *columns: str) -> dict[str, np.ndarray]:
    batch = generate(config, "bid", 0, rows, columns)
    return {name: batch[name].to_numpy(zero_copy_only=False) for name in columns}


def events_of(config: NexmarkConfig, kind: str, rows: int) -> Any:
    """Event numbers of the first rows, told by times that are one millisecond apart."""
    assert config.rate_per_s == 1000
    times = generate(config, kind, 0, rows, ["dateTime"])["dateTime"]
    return times.cast(pa.int64()).to_numpy() - config.start // 1000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", [1, 1000, 77])
def test_any_split_gives_the_same_rows(kind: str, group: int) -> None:
    config = NexmarkConfig(events=None, seed=7, out_of_order_group=group)
    whole = pa.Table.from_batches([generate(config, kind, 0, 5000)])
    edges = [0, 1, 2, 46, 47, 999, 1000, 3333, 5000]
    parts = [generate(config, kind, a, b - a) for a, b in pairwise(edges)]
    assert pa.Table.from_batches(parts).equals(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_any_choice_of_columns_gives_the_same_values(kind: str) -> None:
    whole = generate(ENDLESS, kind, 100, 500)
    assert whole.schema.equals(SCHEMAS[kind])
    for name in SCHEMAS[kind].names:
        assert generate(ENDLESS, kind, 100, 500, [name])[0].equals(whole[name])
    backwards = SCHEMAS[kind].names[::-1]
    assert generate(ENDLESS, kind, 100, 500, backwards).schema.names == backwards


@given(
    group=st.integers(1, 300).filter(lambda g: g % 953),
    events=st.integers(0, 3000),
    proportions=st.tuples(*[st.integers(1, 60)] * 3),
)
@settings(deadline=None, max_examples=40)
def test_rows_follow_the_stream(group: int, events: int, proportions: tuple[int, int, int]) -> None:
    people, auctions, total_bids = proportions
    config = NexmarkConfig(
        events=events,
        rate_per_s=1000,
        out_of_order_group=group,
        person_proportion=people,
        auction_proportion=auctions,
        bid_proportion=total_bids,
    )
    stream = [group * (n // group) + 953 * n % group for n in range(events)]
    total = people + auctions + total_bids
    for kind, first, end in (
        ("person", 0, people),
        ("auction", people, people + auctions),
        ("bid", people + auctions, total),
    ):
        expected = [n for n in stream if first <= n % total < end]
        assert rows_of_kind(config, kind) == len(expected)
        assert events_of(config, kind, len(expected)).tolist() == expected


def test_kinds_come_one_to_three_to_forty_six() -> None:
    config = NexmarkConfig(events=1_000_000)
    assert [rows_of_kind(config, kind) for kind in KINDS] == [20_000, 60_000, 920_000]
    assert rows_of_kind(ENDLESS, "bid") is None
    assert [rows_before(ENDLESS, kind, 52) for kind in KINDS] == [2, 4, 46]


def test_disorder_stays_within_its_group() -> None:
    config = NexmarkConfig(events=None, rate_per_s=1000, out_of_order_group=1000)
    numbers = events_of(config, "bid", 46_000)
    highest = np.maximum.accumulate(numbers)
    assert (np.diff(numbers) < 0).any()
    assert (highest - numbers).max() < 1000
    assert np.array_equal(np.sort(numbers), np.flatnonzero(np.arange(50_000) % 50 >= 4))
    ordered = events_of(NexmarkConfig(events=None, rate_per_s=1000), "bid", 46_000)
    assert np.array_equal(np.sort(numbers), ordered)


def test_a_shuffled_event_keeps_its_content() -> None:
    ordered = pa.Table.from_batches([generate(ENDLESS, "bid", 0, 920)])
    config = NexmarkConfig(events=None, out_of_order_group=1000)
    shuffled = pa.Table.from_batches([generate(config, "bid", 0, 920)])
    order = [("price", "ascending"), ("extra", "ascending")]
    assert shuffled.sort_by(order).equals(ordered.sort_by(order))
    assert not shuffled.equals(ordered)


def test_times_are_rounded_down_to_milliseconds() -> None:
    config = NexmarkConfig(events=None, rate_per_s=3, start=1_000_999)
    times = generate(config, "person", 0, 3, ["dateTime"])["dateTime"].cast(pa.int64())
    assert times.to_pylist() == [1000, 17_667, 34_334]


def test_hot_ratios() -> None:
    rows = 200_000
    n = np.arange(rows) // 46 * 50 + np.arange(rows) % 46 + 4
    bid = bids(ENDLESS, rows, "auction", "bidder", "channel")
    last_auction = 3 * (n // 50) + 2
    last_person = n // 50
    hot_auction = bid["auction"] == 1000 + last_auction // 100 * 100
    hot_bidder = bid["bidder"] == 1000 + last_person // 100 * 100 + 1
    # A cold choice hits the hot id too, one time in some hundred.
    assert abs(hot_auction.mean() - (0.5 + 0.5 * 0.99 / 111)) < 0.01
    assert abs(hot_bidder.mean() - 0.75) < 0.01
    hot_channel = np.isin(bid["channel"], ["Google", "Facebook", "Baidu", "Apple"])
    assert abs(hot_channel.mean() - 0.5) < 0.01
    sales = generate(ENDLESS, "auction", 0, 60_000, ["seller"])["seller"].to_numpy()
    assert abs((sales == 1000 + np.arange(60_000) // 3 // 100 * 100).mean() - 0.75) < 0.01


def test_ids_stay_in_range() -> None:
    rows = 200_000
    n = np.arange(rows) // 46 * 50 + np.arange(rows) % 46 + 4
    bid = bids(ENDLESS, rows, "auction", "bidder")
    last_auction, last_person = 3 * (n // 50) + 2, n // 50
    auction, bidder = bid["auction"] - 1000, bid["bidder"] - 1000
    cold = auction != last_auction // 100 * 100
    assert (auction[cold] >= np.maximum(last_auction - 100, 0)[cold]).all()
    assert (auction <= last_auction + 10).all()
    assert (auction == last_auction + 10).any()
    assert (bidder >= np.maximum(last_person + 1 - 1000, 0)).all()
    assert (bidder <= last_person + 10).all()
    assert (bidder == last_person + 10).any()
    for kind, rows in (("person", 2000), ("auction", 6000)):
        ids = generate(ENDLESS, kind, 0, rows, ["id"])["id"].to_pylist()
        assert ids == list(range(1000, 1000 + rows))


def test_prices_are_log_uniform() -> None:
    price = bids(ENDLESS, 200_000, "price")["price"]
    assert price.min() >= 100
    assert price.max() <= 100_000_000
    share, _ = np.histogram(np.log10(price / 100), bins=6, range=(0, 6))
    assert np.abs(share / price.size - 1 / 6).max() < 0.005


def test_auctions() -> None:
    auction = generate(ENDLESS, "auction", 0, 20_000)
    assert set(auction["category"].to_pylist()) == {10, 11, 12, 13, 14}
    assert pc.min(pc.subtract(auction["reserve"], auction["initialBid"])).as_py() >= 100
    start, end = (auction[name].cast(pa.int64()).to_numpy() for name in ("dateTime", "expires"))
    # 100 auctions in flight take 1,666 events, 166 or 167 ms; lengths are 1 to twice that.
    assert (end - start).min() == 1
    assert 331 <= (end - start).max() <= 334


def test_texts() -> None:
    person = generate(ENDLESS, "person", 0, 5000)
    assert pc.all(pc.match_substring_regex(person["emailAddress"], r"^[a-z ]*@[a-z ]*\.com$")).as_py()
    assert pc.all(pc.match_substring_regex(person["creditCard"], r"^\d{4}( \d{4}){3}$")).as_py()
    assert len(pc.unique(person["name"])) == 99
    assert len(pc.unique(person["city"])) == 10
    assert sorted(pc.unique(person["state"]).to_pylist()) == ["AZ", "CA", "ID", "OR", "WA", "WY"]
    auction = generate(ENDLESS, "auction", 0, 20_000)
    for name, longest in (("itemName", 19), ("description", 99)):
        lengths = pc.binary_length(auction[name])
        assert pc.max(lengths).as_py() == longest
        assert not pc.any(pc.match_substring_regex(auction[name], "^ | $")).as_py()
        letters = Counter("".join(auction[name].to_pylist()))
        assert set(letters) == set("abcdefghijklmnopqrstuvwxyz ")
        assert abs(letters["q"] / letters.total() - 12 / 13 / 26) < 0.002


def test_urls() -> None:
    bid = generate(ENDLESS, "bid", 0, 200_000, ["channel", "url"])
    pattern = (
        r"^https://www\.nexmark\.com/[a-z_]{3,4}/[a-z_]{3,4}/[a-z_]{3,4}/item\.htm\?query=1"
        r"(&channel_id=-?\d+)?$"
    )
    assert pc.all(pc.match_substring_regex(bid["url"], pattern)).as_py()
    url_of = dict(zip(bid["channel"].to_pylist(), bid["url"].to_pylist(), strict=True))
    assert len(url_of) == 10_004
    assert len(set(zip(bid["channel"].to_pylist(), bid["url"].to_pylist(), strict=True))) == 10_004
    with_id = [channel for channel, url in url_of.items() if "&channel_id=" in url]
    assert abs(len(with_id) - 9000) < 150
    assert not {"Google", "Facebook", "Baidu", "Apple"} & set(with_id)
    # 2 has its bit 1 set, which reversed is bit 30; the reverse of 1 is Java's smallest int.
    ids = {channel: url_of[channel].partition("&channel_id=")[2] for channel in with_id}
    assert ids.get("channel-2", "1073741824") == "1073741824"
    assert ids.get("channel-1", "-2147483648") == "-2147483648"
    assert ids.get("channel-0", "0") == "0"
    assert len({"channel-0", "channel-1", "channel-2"} & set(ids)) >= 2


def test_padding_reaches_the_mean_sizes() -> None:
    def text_bytes(batch: pa.RecordBatch) -> Any:
        texts = [c for c in batch.columns if pa.types.is_string(c.type)]
        return sum(pc.binary_length(c).to_numpy() for c in texts)

    bid = generate(ENDLESS, "bid", 0, 50_000, ["extra"])
    lengths = text_bytes(bid)
    assert (lengths.min(), lengths.max()) == (54, 81)
    person = text_bytes(generate(ENDLESS, "person", 0, 20_000)) + 8
    assert abs(person.mean() - 200) < 1
    auction = text_bytes(generate(ENDLESS, "auction", 0, 20_000)) + 48
    assert abs(auction.mean() - 500) < 2
    none = generate(NexmarkConfig(events=None, bid_bytes=10), "bid", 0, 10, ["extra"])
    assert set(none["extra"].to_pylist()) == {""}


def test_seeds_differ() -> None:
    one, other = (generate(NexmarkConfig(None, seed=s), "bid", 0, 1000) for s in (1, 2))
    assert (one["price"].to_numpy() != other["price"].to_numpy()).mean() > 0.99
    assert one["dateTime"].equals(other["dateTime"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_rows_never_change(kind: str) -> None:
    digest = hashlib.sha256()
    for column in generate(ENDLESS, kind, 0, 10_000).columns:
        digest.update(repr(column.to_pylist()).encode())
    assert digest.hexdigest() == DIGESTS[kind]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"events": -1}, "events"),
        ({"events": 10, "seed": -1}, "seed"),
        ({"events": 10, "seed": True}, "seed"),
        ({"events": 10, "rate_per_s": 0}, "rate_per_s"),
        ({"events": 10, "rate_per_s": float("nan")}, "rate_per_s"),
        ({"events": 10, "rate_per_s": "fast"}, "rate_per_s"),
        ({"events": 10, "start": -5}, "start"),
        ({"events": 10, "out_of_order_group": 0}, "out_of_order_group"),
        ({"events": 10, "out_of_order_group": 1906}, "multiple of 953"),
        ({"events": 10, "out_of_order_group": 999_999}, "least common multiple"),
        ({"events": 10, "bid_proportion": 0}, "bid_proportion"),
        ({"events": 10, "hot_auction_ratio": 2.5}, "hot_auction_ratio"),
        ({"events": 10, "bid_bytes": 1_000_000}, "bid_bytes"),
        ({"events": 10**12, "rate_per_s": 0.001}, "year 9999"),
    ],
)
def test_bad_options_are_named(options: dict[str, int], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        NexmarkConfig(**options)


def test_bad_requests_are_named() -> None:
    config = NexmarkConfig(events=100)
    with pytest.raises(SchemaError, match="no column 'prize'; it has auction, bidder, price"):
        generate(config, "bid", 0, 1, ["prize"])
    with pytest.raises(OptionError, match="no events of kind 'bids'"):
        generate(config, "bids", 0, 1)
    with pytest.raises(OptionError, match="rows 90 to 93 were asked for"):
        generate(config, "bid", 90, 3)
    with pytest.raises(OptionError, match="one batch holds at most"):
        generate(ENDLESS, "bid", 0, 50_000_000)
