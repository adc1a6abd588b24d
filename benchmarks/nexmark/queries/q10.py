"""On which day and in which minute was every bid placed, for a partitioned log?"""

from penstock import col
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Add the partition columns."""
    return events.bid.select(
        "auction",
        "bidder",
        "price",
        "dateTime",
        "extra",
        dt=col("dateTime").dt.format("%Y-%m-%d"),
        hm=col("dateTime").dt.format("%H:%M"),
    )
