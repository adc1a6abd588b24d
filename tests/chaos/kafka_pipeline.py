"""The pipeline under attack on Kafka: a Nexmark query from a topic to a topic, exactly once.

Arguments: the query; ``append``, ``upsert`` or ``changelog``; the topic it reads as ``kafka://HOST:PORT/TOPIC``, or a
number of events of the generator; the topic it writes; the directory of the job; milliseconds that a transaction may
take, if not as many as usual.
"""

import sys
from typing import cast

import penstock as ps
from penstock.benchmarks.nexmark.events import Events, EventSource
from penstock.benchmarks.nexmark.queries import load
from penstock.benchmarks.nexmark.topic import parse_address
from penstock.model.option_literals import WriteMode

query, way, given, output, directory = sys.argv[1:6]
mode = cast(WriteMode, way)
timeout = {"transaction.timeout.ms": int(sys.argv[6])} if len(sys.argv) > 6 else {}
source: EventSource
if given.isdigit():
    source, bootstrap = ps.NexmarkConfig(events=int(given)), "localhost:9092"
else:
    source = parse_address(given)
    bootstrap = source.bootstrap
job = ps.Job()
stream = load(query)(Events(job, source))
for number, node in enumerate(list(job.graph.operators.values())):
    job.change(node.id, name=f"{node.name} {number}", named=True)
    if any(edge.exchange == "broadcast" for edge in node.inputs):
        # State that does not lie by key cannot be dealt out to another number of instances.
        job.change(node.id, parallelism=1)
key = "id" if stream.updating else None
kafka = {"bootstrap.servers": bootstrap, **timeout}
stream.write_kafka(output, kafka=kafka, guarantee="exactly_once", mode=mode, key=key).name("out")
job.run(output, directory=directory, restart_delay="50ms")
