"""Which bid won each auction?"""

from penstock import col
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Keep the highest bid while the auction was open, of equal ones the earliest; the result is updating.

    Bids of one price and time are ordered by the columns of the result, left to right: by bidder, then by extra.
    """
    bids = events.bid.select("auction", "bidder", "price", bid_dateTime="dateTime", bid_extra="extra")
    joined = events.auction.interval_join(bids, left_on="id", right_on="auction", between=("0s", col("expires")))
    return joined.key_by("id").top(1, by=[col("price").desc(), "bid_dateTime"])
