"""Which bids are between one and fifty million euros, at what time of day, and how often does "c" occur in them?"""

from decimal import Decimal

from penstock import col, when
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Filter on a computed price and classify the hour."""
    euros = col("price") * Decimal("0.908")
    hour = col("dateTime").dt.hour()
    time_of_day = (
        when((hour >= 8) & (hour <= 18))
        .then("dayTime")
        .when((hour <= 6) | (hour >= 20))
        .then("nightTime")
        .otherwise("otherTime")
    )
    return events.bid.filter((euros > 1_000_000) & (euros < 50_000_000)).select(
        "auction",
        "bidder",
        euros.alias("price"),
        time_of_day.alias("bidTimeType"),
        "dateTime",
        "extra",
        c_counts=col("extra").str.count_char("c"),
    )
