"""What is the mean closing price of each seller's last 10 closed auctions?"""

from penstock import col, count, max_, sum_, tumbling
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Close an auction when the watermark passes ``expires``; auctions that expire together are ordered by id.

    The best bids are grouped by the very millisecond in which their auction expires, so that each is final then.
    """
    bids = events.bid.select("auction", "price", "dateTime")
    closed = (
        events.auction.interval_join(bids, left_on="id", right_on="auction", between=("0s", col("expires")))
        .event_time("expires")
        .key_by("id", "seller")
        .window(tumbling("1ms"))
        .agg(final=max_("price"))
    )
    last = closed.key_by("seller").top(10, by=[col("window_start").desc(), col("id").desc()])
    totals = last.key_by("seller").agg(total=sum_("final"), auctions=count())
    # The reference table's mean is an integer, truncated.
    return totals.select("seller", avg_price=col("total") // col("auctions"))
