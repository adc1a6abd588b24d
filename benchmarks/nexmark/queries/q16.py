"""How many bids, bidders and auctions did each channel bring a day, in which price ranks, and when was the last bid?"""

from penstock import col, max_
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries.q15 import statistics
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Keep running statistics per channel and day; the result is updating."""
    time = col("dateTime").dt
    return events.bid.key_by("channel", day=time.format("%Y-%m-%d")).agg(
        minute=max_(time.format("%H:%M")), **statistics()
    )
