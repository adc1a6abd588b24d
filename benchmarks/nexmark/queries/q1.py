"""What is every bid's price in euros?"""

from decimal import Decimal

from penstock import col
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream

EUROS_PER_DOLLAR = Decimal("0.908")


def query(events: Events) -> Stream:
    """Convert the price exactly, as a decimal."""
    euros = (col("price") * EUROS_PER_DOLLAR).alias("price")
    return events.bid.select("auction", "bidder", euros, "dateTime", "extra")
