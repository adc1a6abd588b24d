"""The Nexmark queries over bids alone, each in the form that Polars answers fastest; used by ``polars_queries``."""

from collections.abc import Callable

import polars as pl
from polars import col

from penstock.benchmarks.peers.polars_events import Events

_PRICE = pl.Decimal(23, 3)
_EUROS = pl.lit("0.908").cast(pl.Decimal(4, 3))
_TIME = col("dateTime")
_GAP = pl.duration(seconds=10)
_DAY = col("day").dt.to_string("%Y-%m-%d")


def q0(events: Events) -> pl.LazyFrame:
    """Every bid as it is."""
    return events.bid.select("auction", "bidder", "price", "dateTime", "extra")


def q1(events: Events) -> pl.LazyFrame:
    """Prices in euros."""
    return q0(events).with_columns(price=(_EUROS * col("price")).cast(_PRICE))


def q2(events: Events) -> pl.LazyFrame:
    """Bids on every 123rd auction."""
    return events.bid.filter(col("auction") % 123 == 0).select("auction", "price")


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


def q12(events: Events) -> pl.LazyFrame:
    """Bids of each bidder: read at once, all fall into one window of processing time; its bounds are left out."""
    return events.bid.group_by("bidder").agg(bid_count=pl.len().cast(pl.Int64))


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


def q15(events: Events) -> pl.LazyFrame:
    """Bids, bidders and auctions of each day, by rank of price."""
    return _ranks(events).select("day", pl.exclude("day", "last")).with_columns(_DAY)


def q16(events: Events) -> pl.LazyFrame:
    """Bids, bidders and auctions of each channel and day, by rank of price, and the minute of the last bid."""
    minute = col("last").dt.strftime("%H:%M").alias("minute")
    first = ("channel", "day", "last")
    return _ranks(events, "channel").select("channel", "day", minute, pl.exclude(first)).with_columns(_DAY)


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
        .with_columns(_DAY)
    )


def q18(events: Events) -> pl.LazyFrame:
    """The last bid of each bidder on each auction; only bids of one bidder, auction and time are sorted."""
    pair = ("bidder", "auction")
    last = events.bid.group_by(pair).agg(newest=_TIME.max())
    times = events.bid.select(*pair, "dateTime").join(last, on=pair).filter(col("newest") == _TIME)
    counts = times.group_by(*pair, "dateTime").agg(bids=pl.len())
    newest = events.bid.join(counts, on=(*pair, "dateTime"))
    several = newest.filter(col("bids") > 1).sort("price", "channel", "url", "extra", descending=True)
    first = several.unique(pair, keep="first")
    return pl.concat([newest.filter(col("bids") == 1), first]).drop("bids")


def q19(events: Events) -> pl.LazyFrame:
    """The ten highest bids of each auction; whole bids are sorted only from the tenth price up."""
    least = events.bid.group_by("auction").agg(low=col("price").top_k(10).min())
    bids = events.bid.join(least, on="auction").filter(col("price") >= col("low")).drop("low")
    order = ("price", "bidder", "channel", "url", "dateTime", "extra")
    rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("auction")
    ranked = bids.sort(order, descending=[True] + [False] * 5).with_columns(rank_number=rank)
    return ranked.filter(col("rank_number") <= 10)


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
    matching = events.bid.select("auction", "bidder", "price", "channel", channel_id=channel_id)
    return matching.filter(col("channel_id").is_not_null())


def q22(events: Events) -> pl.LazyFrame:
    """Bids with the folders of their URL."""
    return events.bid.select("auction", "bidder", "price", "channel", part=col("url").str.splitn("/", 7)).select(
        "auction",
        "bidder",
        "price",
        "channel",
        *[col("part").struct[2 + level].alias(f"dir{level}") for level in (1, 2, 3)],
    )


def _ranks(events: Events, *keys: str) -> pl.LazyFrame:
    """Figures per day and ``keys`` from one row per bidder and one per auction: no set of distinct values."""
    day = ("day", *keys)
    bids, rank1, rank3 = col("bids"), col("rank1"), col("rank3")
    in_rank2 = bids - rank1 - rank3
    bidders = (
        _per(events, "bidder", *keys)
        .group_by(day)
        .agg(
            last=col("last").max(),
            total_bids=bids.sum(),
            rank1_bids=rank1.sum(),
            rank2_bids=in_rank2.sum(),
            rank3_bids=rank3.sum(),
            **_counts("bidders"),
        )
    )
    auctions = _per(events, "auction", *keys).group_by(day).agg(**_counts("auctions"))
    return bidders.join(auctions, on=day)


def _per(events: Events, noun: str, *keys: str) -> pl.LazyFrame:
    price = col("price")
    return events.bid.group_by(*keys, noun, day=_TIME.dt.date()).agg(
        last=_TIME.max(),
        bids=pl.len().cast(pl.Int64),
        rank1=(price < 10_000).sum().cast(pl.Int64),
        rank3=(price >= 1_000_000).sum().cast(pl.Int64),
    )


def _counts(nouns: str) -> dict[str, pl.Expr]:
    bids, rank1, rank3 = col("bids"), col("rank1"), col("rank3")
    conditions = {"rank1": rank1 > 0, "rank2": bids > rank1 + rank3, "rank3": rank3 > 0}
    counts = {f"{rank}_{nouns}": condition.sum().cast(pl.Int64) for rank, condition in conditions.items()}
    return {f"total_{nouns}": pl.len().cast(pl.Int64), **counts}


_QUERIES = (q0, q1, q2, q5, q5_panes, q7, q10, q11, q12, q14, q15, q16, q17, q18, q19, q21, q22)
BIDS: dict[str, Callable[[Events], pl.LazyFrame]] = {query.__name__: query for query in _QUERIES}
