"""Which auctions got the most bids in the last 10 seconds, every 2 seconds?"""

from penstock import count, hopping, max_, tumbling
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Count bids per auction and window, then keep the auctions that reach the window's greatest count.

    A result of a window that ends at e has event time just before e, so all results of one hopping window fall into
    one tumbling window of a hop's size.
    """
    counts = events.bid.key_by("auction").window(hopping("10s", "2s")).agg(num=count())
    most = counts.window(tumbling("2s")).agg(most=max_("num"))
    return counts.join(most.broadcast(), left_on="num", right_on="most", window=tumbling("2s")).select("auction", "num")
