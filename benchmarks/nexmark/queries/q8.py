"""Who opened an auction within 10 seconds of registering?"""

from penstock import tumbling
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Join the distinct people and the distinct sellers of each window."""
    people = events.person.key_by("id", "name").window(tumbling("10s")).agg()
    sellers = events.auction.key_by("seller").window(tumbling("10s")).agg()
    registered = people.select("id", "name", "window_end", stime="window_start")
    return registered.join(
        sellers.select("seller", ended="window_end"), left_on="id", right_on="seller", window=tumbling("10s")
    ).select("id", "name", "stime")
