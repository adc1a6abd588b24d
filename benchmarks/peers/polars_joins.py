"""The Nexmark queries that join tables, each in the form that Polars answers fastest; used by ``polars_queries``."""

from collections.abc import Callable

import polars as pl
from polars import col

from penstock.benchmarks.peers.polars_events import Events

_TIME = col("dateTime")


def q3(events: Events) -> pl.LazyFrame:
    """Sellers of three states in category 10."""
    auctions = events.auction.filter(col("category") == 10)
    people = events.person.filter(col("state").is_in(["OR", "ID", "CA"]))
    joined = auctions.join(people, left_on="seller", right_on="id")
    return joined.select("name", "city", "state", "id")


def q4(events: Events) -> pl.LazyFrame:
    """Mean closing price of each category."""
    best = _open_bids(events).group_by("auction").agg(col("category").first(), final=col("price").max())
    return best.group_by(id="category").agg(final=col("final").sum() // pl.len().cast(pl.Int64))


def q6(events: Events) -> pl.LazyFrame:
    """Mean closing price of each seller's last 10 closed auctions."""
    closed = _open_bids(events).group_by("auction").agg(col("seller", "expires").first(), final=col("price").max())
    last = closed.sort("expires", "auction", descending=True).group_by("seller").agg(col("final").head(10))
    final = col("final").list
    return last.select("seller", avg_price=final.sum() // final.len().cast(pl.Int64))


def q8(events: Events) -> pl.LazyFrame:
    """People who opened an auction in the 10 s in which they joined."""
    window = _TIME.dt.truncate("10s").alias("stime")
    sellers = events.auction.select("seller", window)
    people = events.person.select("id", "name", window).unique()
    return people.join(sellers, left_on=["id", "stime"], right_on=["seller", "stime"], how="semi")


def q9(events: Events) -> pl.LazyFrame:
    """Each auction with the bid that won it; only bids of the highest price are sorted."""
    tops = _open_bids(events).filter(col("price") == col("price").max().over("auction"))
    best = tops.sort("dateTime", "bidder", "bid_extra").unique("auction", keep="first")
    winners = best.select("auction", "bidder", "price", "bid_extra", bid_dateTime="dateTime")
    joined = events.auction.join(winners, left_on="id", right_on="auction", coalesce=False)
    of_bid = ("auction", "bidder", "price", "bid_dateTime", "bid_extra")
    return joined.select(pl.exclude(of_bid), *of_bid)


def q13(events: Events) -> pl.LazyFrame:
    """Bids with what the side table says of their auction."""
    bids = events.bid.select("auction", "bidder", "price", "dateTime", key=col("auction") % 10_000)
    return bids.join(events.side_input, on="key").drop("key")


def q20(events: Events) -> pl.LazyFrame:
    """Bids on auctions of category 10, with the auction."""
    bids = events.bid.rename({"dateTime": "bid_dateTime", "extra": "bid_extra"})
    auctions = events.auction.filter(col("category") == 10)
    auctions = auctions.rename({"dateTime": "auction_dateTime", "extra": "auction_extra"})
    return bids.join(auctions, left_on="auction", right_on="id")


def q23(events: Events) -> pl.LazyFrame:
    """Bids by people who sell, with the person and what they sell."""
    bids = events.bid.select("bidder", "price", "channel", "url", bid_extra="extra")
    people = events.person.drop("dateTime").rename({"extra": "person_extra"}).with_columns(person_id="id")
    auctions = events.auction.drop("id").rename({"dateTime": "auction_dateTime", "extra": "auction_extra"})
    sellers = people.join(auctions.with_columns(who="seller"), left_on="id", right_on="who")
    joined = bids.join(sellers, left_on="bidder", right_on="id")
    first = ("bidder", "price", "channel", "url", "bid_extra", "person_id")
    return joined.select(*first, pl.exclude(first))


def _open_bids(events: Events) -> pl.LazyFrame:
    """Bids made while their auction was open, with the auction's category, seller and times."""
    auctions = events.auction.select("id", "category", "seller", "expires", opens="dateTime")
    bids = events.bid.select("auction", "bidder", "price", "dateTime", bid_extra="extra")
    joined = bids.join(auctions, left_on="auction", right_on="id")
    return joined.filter(_TIME.is_between(col("opens"), col("expires")))


JOINS: dict[str, Callable[[Events], pl.LazyFrame]] = {
    query.__name__: query for query in (q3, q4, q6, q8, q9, q13, q20, q23)
}
