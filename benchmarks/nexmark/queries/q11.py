"""How many bids did each bidder make in every session without a pause of more than 10 seconds?"""

from penstock import count, session
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Count bids per bidder and session."""
    sessions = events.bid.key_by("bidder").window(session("10s")).agg(bid_count=count())
    return sessions.select("bidder", "bid_count", starttime="window_start", endtime="window_end")
