"""What does the side table say of each bid's auction?"""

from penstock import col
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Look ``auction mod 10000`` up in a table that is read as a whole."""
    joined = events.bid.lookup(events.side_input, left_on=col("auction") % 10_000, right_on="key")
    return joined.select("auction", "bidder", "price", "dateTime", "value")
