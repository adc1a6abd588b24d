"""Which bids are on every 123rd auction, and at what price?"""

from penstock import col
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Select bids by auction id."""
    return events.bid.filter(col("auction") % 123 == 0).select("auction", "price")
