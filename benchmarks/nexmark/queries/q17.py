"""How many bids did every auction get each day, in which price ranks, and at what prices?"""

from penstock import col, count, max_, min_, sum_
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Keep running statistics per auction and day; the result is updating."""
    price = col("price")
    reports = events.bid.key_by("auction", day=col("dateTime").dt.format("%Y-%m-%d")).agg(
        total_bids=count(),
        rank1_bids=count().filter(price < 10_000),
        rank2_bids=count().filter((price >= 10_000) & (price < 1_000_000)),
        rank3_bids=count().filter(price >= 1_000_000),
        min_price=min_("price"),
        max_price=max_("price"),
        sum_price=sum_("price"),
    )
    # The reference table's mean is an integer, truncated.
    mean = (col("sum_price") // col("total_bids")).alias("avg_price")
    ranks = [f"rank{rank}_bids" for rank in (1, 2, 3)]
    return reports.select("auction", "day", "total_bids", *ranks, "min_price", "max_price", mean, "sum_price")
