"""Who in Oregon, Idaho or California sells in category 10, and which auctions?"""

from penstock import col
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Join auctions with their sellers, whichever comes first."""
    auctions = events.auction.filter(col("category") == 10).select("id", "seller")
    sellers = events.person.filter(col("state").is_in(["OR", "ID", "CA"])).select(
        "name", "city", "state", person=col("id")
    )
    return auctions.join(sellers, left_on="seller", right_on="person").select("name", "city", "state", "id")
