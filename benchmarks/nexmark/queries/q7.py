"""Which bids were the highest in each period of 10 seconds?"""

import pyarrow as pa
import pyarrow.compute as pc

from penstock import col, max_, tumbling
from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream


def query(events: Events) -> Stream:
    """Join the bids of each window with the window's highest price.

    The reference compares times inclusively at both ends: a bid at the very instant at which a window ends also wins
    there if it equals that window's highest price.
    """
    bids = events.bid.select("auction", "bidder", "price", "dateTime", "extra", placed=col("dateTime"))
    at_an_end = bids.filter(col("dateTime").dt.truncate("10s") == col("dateTime"))
    highest = bids.window(tumbling("10s")).agg(highest=max_("price"))
    winners = bids.union(at_an_end.map_batches(_just_before)).join(
        highest, left_on="price", right_on="highest", window=tumbling("10s")
    )
    return winners.select("auction", "bidder", "price", col("placed").alias("dateTime"), "extra")


def _just_before(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Move bids one millisecond back, into the window that ends at their instant."""
    index = rows.schema.get_field_index("dateTime")
    moved = pc.subtract(rows.column(index), pa.scalar(1, pa.duration("ms")))
    return rows.set_column(index, rows.schema.field(index), moved.cast(rows.schema.field(index).type))
