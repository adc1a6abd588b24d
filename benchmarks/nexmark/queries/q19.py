"""Which are the ten highest bids of every auction?"""

from penstock import col
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Rank bids by price; bids of one price are ordered by their columns, left to right. The result is updating."""
    return events.bid.key_by("auction").top(10, by=col("price").desc(), rank="rank_number")
