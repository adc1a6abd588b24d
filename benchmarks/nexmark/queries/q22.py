"""In which directories of the site does every bid's address lie?"""

from penstock import col
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Split the address at slashes; the first directory is its fourth part."""
    url = col("url")
    return events.bid.select(
        "auction",
        "bidder",
        "price",
        "channel",
        dir1=url.str.split_part("/", 4),
        dir2=url.str.split_part("/", 5),
        dir3=url.str.split_part("/", 6),
    )
