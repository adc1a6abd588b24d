"""How many bids, bidders and auctions were there each day, in which price ranks?"""

from penstock import col, count, count_distinct
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream
from penstock.model.aggregates import AggregateCall


def query(events: Events) -> Stream:
    """Keep running statistics per day; the result is updating."""
    return events.bid.key_by(day=col("dateTime").dt.format("%Y-%m-%d")).agg(**statistics())


def statistics() -> dict[str, AggregateCall]:
    """Count bids, and different bidders and auctions, in all and in three ranks of price."""
    price = col("price")
    ranks = {"rank1": price < 10_000, "rank2": (price >= 10_000) & (price < 1_000_000), "rank3": price >= 1_000_000}
    counts: dict[str, AggregateCall] = {}
    kinds = {"bids": count(), "bidders": count_distinct("bidder"), "auctions": count_distinct("auction")}
    for noun, call in kinds.items():
        counts[f"total_{noun}"] = call
        counts |= {f"{rank}_{noun}": call.filter(condition) for rank, condition in ranks.items()}
    return counts
