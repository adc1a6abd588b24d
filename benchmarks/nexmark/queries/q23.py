"""Which bids were made by people who sell themselves, and what do they sell?"""

from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream

PERSON = ("person_id", "name", "emailAddress", "creditCard", "city", "state", "person_extra")
AUCTION = ("itemName", "description", "initialBid", "reserve", "auction_dateTime", "expires")


def query(events: Events) -> Stream:
    """Join people with the auctions they opened, and those with the bids they made, whichever comes first.

    The two small streams meet first, so that bids, of which there are most, are joined only once.
    """
    bids = events.bid.select("bidder", "price", "channel", "url", bid_extra="extra")
    people = events.person.drop("dateTime").rename(id="person_id", extra="person_extra")
    auctions = events.auction.rename(dateTime="auction_dateTime", extra="auction_extra")
    sellers = people.join(auctions, left_on="person_id", right_on="seller")
    return bids.join(sellers, left_on="bidder", right_on="person_id").select(
        *bids.schema.names, *PERSON, *AUCTION, "seller", "category", "auction_extra"
    )
