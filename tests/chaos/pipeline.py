"""The pipeline under attack: bids in windows of each bidder to Parquet, and the standing count of each auction to JSON.

Arguments: how many events; the bytes that the state of an instance may take in memory, if it is bounded.
"""

import sys

import penstock as ps

job = ps.Job()
bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=int(sys.argv[1])), watermark="4s", job=job).name("bids")
windows = bids.key_by("bidder").window(ps.tumbling("10s"))
windows.agg(bids=ps.count(), paid=ps.sum_("price")).name("per bidder").write_parquet("windows").name("windows")
auctions = bids.key_by("auction").agg(bids=ps.count(), highest=ps.max_("price")).name("per auction")
auctions.write_json("auctions", mode="changelog").name("auctions")
job.run("chaos", state_bytes=int(sys.argv[2]) if len(sys.argv) > 2 else None)
