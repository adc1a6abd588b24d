"""The pipeline under a supervisor: counts and sums per key and window, from a topic to a topic, exactly once.

Arguments: the broker's address, the topic it reads, the topic it writes, the length of its windows, the directory of
the job.
"""

import sys
from datetime import datetime

import penstock as ps
from penstock import count, sum_, tumbling

bootstrap, read, written, window, directory = sys.argv[1:6]
numbers = ps.read_kafka(
    read,
    kafka=bootstrap,
    schema={"id": int, "key": int, "value": int, "at": datetime},
    time="at",
    watermark="1s",
).name("numbers")
totals = numbers.key_by("key").window(tumbling(window)).agg(numbers=count(), total=sum_("value")).name("per key")
totals.write_kafka(written, kafka=bootstrap, guarantee="exactly_once", key="key").name("out")
ps.run("supervised", directory=directory, restart_delay="200ms")
