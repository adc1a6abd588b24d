"""What was each bidder's last bid on every auction?"""

from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Keep the newest bid; of several at one time, the greatest by its columns, left to right. Updating."""
    return events.bid.key_by("bidder", "auction").deduplicate(keep="last")
