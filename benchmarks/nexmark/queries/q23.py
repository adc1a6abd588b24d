"""Which bids were made by people who sell themselves, and what do they sell?"""

from penstock.benchmarks.nexmark.events import Events
from penstock.stream import Stream


def query(events: Events) -> Stream:
    """Join each bid with its bidder and with the auctions that the bidder opened, whichever comes first."""
    bids = events.bid.select("bidder", "price", "channel", "url", bid_extra="extra")
    people = events.person.drop("dateTime").rename(id="person_id", extra="person_extra")
    auctions = events.auction.rename(dateTime="auction_dateTime", extra="auction_extra")
    sellers = bids.join(people, left_on="bidder", right_on="person_id")
    return sellers.join(auctions, left_on="bidder", right_on="seller").drop("id")
