"""How many bids did each bidder make in every 10 seconds of processing time?"""

from penstock import count, tumbling
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Count by the clock on the wall, not by the bids' own times."""
    counts = events.bid.key_by("bidder").window(tumbling("10s", clock="processing")).agg(bid_count=count())
    return counts.select("bidder", "bid_count", starttime="window_start", endtime="window_end")
