"""Which channel id does every bid come from, by the channel's name or by its address?"""

from penstock import col, when
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Name four channels, and take the id of the others from their address."""
    channel = col("channel").str.lower()
    from_address = col("url").str.regexp_extract("(&|^)channel_id=([^&]*)", 2)
    channel_id = (
        when(channel == "apple")
        .then("0")
        .when(channel == "google")
        .then("1")
        .when(channel == "facebook")
        .then("2")
        .when(channel == "baidu")
        .then("3")
        .otherwise(from_address)
    )
    has_channel = from_address.is_not_null() | channel.is_in(["apple", "google", "facebook", "baidu"])
    return events.bid.filter(has_channel).select(
        "auction", "bidder", "price", "channel", channel_id.alias("channel_id")
    )
