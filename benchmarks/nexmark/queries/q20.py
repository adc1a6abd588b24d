"""Which bids were made on auctions of category 10, and what was auctioned?"""

from penstock import col
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Join bids with their auctions, whichever comes first; an auction comes once, so bids need not be kept."""
    bids = events.bid.rename(dateTime="bid_dateTime", extra="bid_extra")
    auctions = events.auction.rename(dateTime="auction_dateTime", extra="auction_extra")
    joined = bids.join(auctions, left_on="auction", right_on="id", validate="m:1")
    return joined.filter(col("category") == 10).drop("id")
