"""What does it cost to pass every bid through?"""

from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Pass bids through."""
    return events.bid.select("auction", "bidder", "price", "dateTime", "extra")
