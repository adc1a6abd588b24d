"""At what price do auctions of each category close on average?"""

from penstock import col, count, max_, sum_
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Take the best bid of each auction while it was open, then the mean per category; the result is updating."""
    bids = events.bid.select("auction", "price", "dateTime")
    best = (
        events.auction.interval_join(bids, left_on="id", right_on="auction", between=("0s", col("expires")))
        .key_by("id", "category")
        .agg(final=max_("price"))
    )
    totals = best.key_by("category").agg(total=sum_("final"), auctions=count())
    # The reference table's mean is an integer, truncated.
    return totals.select(id="category", final=col("total") // col("auctions"))
