"""Numbers to one Kafka topic, and to a second one that was added later: a program that tests run and kill.

Arguments: bootstrap address, topic, topic of the added sink ("-" before it is added) and its guarantee, rows of each of
the two partitions, milliseconds between reads, and the row behind which the source waits for ever.
"""

import sys

import penstock as ps
from penstock.dsl.job import Job
from tests.kafka.sink_job import Numbers

if __name__ == "__main__":
    address, first, added, guarantee, rows, pause, waits_at = sys.argv[1:8]
    numbers = ps.read(Numbers(int(rows), float(pause), int(waits_at)), job=Job()).name("numbers").rebalance()
    numbers.write_kafka(first, kafka=address, guarantee="exactly_once", key="id").name("first")
    if added != "-":
        numbers.write_kafka(added, kafka=address, guarantee=guarantee, key="id").name("added")  # type: ignore[arg-type]
    numbers.job.run("numbers")
