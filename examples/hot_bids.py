"""Count the expensive bids of an auction site per channel, every five seconds of event time."""

import penstock as ps
from penstock import col, count, max_, tumbling

bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=200_000), watermark="2s").name("bids")
hot = (
    bids.filter(col("price") > 10_000_000)
    .key_by("channel")
    .window(tumbling("5s"))
    .agg(bids=count(), top=max_("price"))
    .name("per channel")
    .filter(col("bids") > 980)
)
hot.print().name("hot")
ps.run(name="hot-bids")
