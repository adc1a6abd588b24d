"""The Nexmark queries on Polars with one thread, each in the form that Polars answers fastest.

Called by ``runner.py`` in a process of its own, which sets ``POLARS_MAX_THREADS`` first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
from polars import col

_PRICE = pl.Decimal(23, 3)
_EUROS = pl.lit("0.908").cast(pl.Decimal(4, 3))
_TIME = col("dateTime")
_GAP = pl.duration(seconds=10)


@dataclass(frozen=True)
class Events:
    """The three files, not read yet."""

    person: pl.LazyFrame
    auction: pl.LazyFrame
    bid: pl.LazyFrame


def q0(events: Events) -> pl.LazyFrame:
    """Every bid as it is."""
    return events.bid.select("auction", "bidder", "price", "dateTime", "extra")


def q1(events: Events) -> pl.LazyFrame:
    """Prices in euros."""
    return q0(events).with_columns(price=(_EUROS * col("price")).cast(_PRICE))


def q2(events: Events) -> pl.LazyFrame:
    """Bids on every 123rd auction."""
    return events.bid.filter(col("auction") % 123 == 0).select("auction", "price")


def q3(events: Events) -> pl.LazyFrame:
    """Sellers of three states in category 10."""
    auctions = events.auction.filter(col("category") == 10)
    people = events.person.filter(col("state").is_in(["OR", "ID", "CA"]))
    joined = auctions.join(people, left_on="seller", right_on="id")
    return joined.select("name", "city", "state", "id")


def q5(events: Events) -> pl.LazyFrame:
    """The busiest auctions of every hop."""
    hops = (
        events.bid.select("auction", "dateTime")
        .sort("dateTime")
        .group_by_dynamic("dateTime", every="2s", period="10s", offset="-8s")
        .agg(col("auction").value_counts(name="num"))
        .explode("auction")
        .unnest("auction")
    )
    tops = hops.filter(col("num") == col("num").max().over("dateTime"))
    return tops.select("auction", col("num").cast(pl.Int64))


def q5_panes(events: Events) -> pl.LazyFrame:
    """The same, counted per 2 s first and then added up five by five."""
    panes = events.bid.group_by("auction", starts=_TIME.dt.truncate("2s")).agg(num=pl.len())
    counts = (
        pl.concat([panes.with_columns(col("starts") - pl.duration(seconds=2 * hops)) for hops in range(5)])
        .group_by("auction", "starts")
        .agg(col("num").sum())
    )
    is_top = col("num") == col("num").max()
    tops = counts.group_by("starts").agg(col("auction").filter(is_top), col("num").max())
    return tops.explode("auction").select("auction", col("num").cast(pl.Int64))


def q7(events: Events) -> pl.LazyFrame:
    """The highest bids of every 10 s."""
    tops = events.bid.group_by(starts=_TIME.dt.truncate("10s")).agg(col("price").max())
    in_time = _TIME.is_between(col("starts"), col("starts") + pl.duration(seconds=10))
    return q0(events).join(tops, on="price").filter(in_time).drop("starts")


def q8(events: Events) -> pl.LazyFrame:
    """People who opened an auction in the 10 s in which they joined."""
    window = _TIME.dt.truncate("10s").alias("stime")
    sellers = events.auction.select("seller", window)
    people = events.person.select("id", "name", window).unique()
    return people.join(sellers, left_on=["id", "stime"], right_on=["seller", "stime"], how="semi")


def q10(events: Events) -> pl.LazyFrame:
    """Bids with day and minute."""
    return q0(events).with_columns(dt=_TIME.dt.strftime("%Y-%m-%d"), hm=_TIME.dt.strftime("%H:%M"))


def q11(events: Events) -> pl.LazyFrame:
    """Bids of each bidder's sessions."""
    session = (_TIME.diff() > _GAP).fill_null(value=False).cum_sum().over("bidder")
    return (
        events.bid.select("bidder", "dateTime")
        .sort("dateTime")
        .with_columns(session=session)
        .group_by("bidder", "session")
        .agg(
            bid_count=pl.len().cast(pl.Int64),
            starttime=_TIME.min(),
            endtime=_TIME.max() + _GAP,
        )
        .drop("session")
    )


def q14(events: Events) -> pl.LazyFrame:
    """Bids within a price range, with their time of day and the count of a letter."""
    hour = _TIME.dt.hour()
    low, high = (pl.lit(price).cast(_PRICE) for price in ("1000000", "50000000"))
    bid_time_type = (
        pl.when(hour.is_between(8, 18))
        .then(pl.lit("dayTime"))
        .when((hour <= 6) | (hour >= 20))
        .then(pl.lit("nightTime"))
        .otherwise(pl.lit("otherTime"))
    )
    return (
        q1(events)
        .filter(col("price").is_between(low, high, closed="none"))
        .select(
            "auction",
            "bidder",
            "price",
            bid_time_type.alias("bidTimeType"),
            "dateTime",
            "extra",
            col("extra").str.count_matches("c", literal=True).cast(pl.Int64).alias("c_counts"),
        )
    )


def q17(events: Events) -> pl.LazyFrame:
    """Figures of each auction and day."""
    price = col("price")
    return (
        events.bid.group_by("auction", day=_TIME.dt.date())
        .agg(
            total_bids=pl.len().cast(pl.Int64),
            rank1_bids=(price < 10_000).sum().cast(pl.Int64),
            rank2_bids=((price >= 10_000) & (price < 1_000_000)).sum().cast(pl.Int64),
            rank3_bids=(price >= 1_000_000).sum().cast(pl.Int64),
            min_price=price.min(),
            max_price=price.max(),
            avg_price=price.sum() // pl.len().cast(pl.Int64),
            sum_price=price.sum(),
        )
        .with_columns(col("day").dt.to_string("%Y-%m-%d"))
    )


def q21(events: Events) -> pl.LazyFrame:
    """Bids with the id of their channel, by its name or from the URL."""
    channel = col("channel").str.to_lowercase()
    channel_id = (
        pl.when(channel == "apple")
        .then(pl.lit("0"))
        .when(channel == "google")
        .then(pl.lit("1"))
        .when(channel == "facebook")
        .then(pl.lit("2"))
        .when(channel == "baidu")
        .then(pl.lit("3"))
        .otherwise(col("url").str.extract("(&|^)channel_id=([^&]*)", 2))
    )
    found = events.bid.select("auction", "bidder", "price", "channel", channel_id=channel_id)
    return found.filter(col("channel_id").is_not_null())


def q22(events: Events) -> pl.LazyFrame:
    """Bids with the folders of their URL."""
    return events.bid.select("auction", "bidder", "price", "channel", part=col("url").str.splitn("/", 7)).select(
        "auction",
        "bidder",
        "price",
        "channel",
        *[col("part").struct[2 + level].alias(f"dir{level}") for level in (1, 2, 3)],
    )


QUERIES: dict[str, Callable[[Events], pl.LazyFrame]] = {
    "q0": q0,
    "q1": q1,
    "q2": q2,
    "q3": q3,
    "q5": q5,
    "q5_panes": q5_panes,
    "q7": q7,
    "q8": q8,
    "q10": q10,
    "q11": q11,
    "q14": q14,
    "q17": q17,
    "q21": q21,
    "q22": q22,
}


def connect(directory: Path) -> Events:
    """The three files, to be scanned lazily."""
    person, auction, bid = (pl.scan_parquet(directory / f"{kind}.parquet") for kind in ("person", "auction", "bid"))
    return Events(person, auction, bid)


def answer(session: Events, query: str) -> Iterator[pa.RecordBatch]:
    """All rows of a query, collected at once by the streaming engine."""
    frame = QUERIES[query](session).collect(engine="streaming")
    table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
    yield from table.to_batches()
