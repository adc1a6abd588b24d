"""A job whose exactly-once writers come and go as it runs: a program that a test runs, and kills on the way.

Arguments: bootstrap address, topic, folder, the instances of the writers of totals, one after the other, with commas.
"""

import json
import sys
from pathlib import Path

from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, until
from tests.contracts.executors.ways import PROCESSES
from tests.kafka.metered_topic import metered_topic


def run(kafka: str, topic: str, folder: Path, instances: list[int]) -> None:
    """Run it, and print whether each change was live, and how often tasks have begun anew."""
    metered = MeteredJob(folder)
    metered.give(0)
    handle = metered_topic(metered, kafka, topic).start(
        "rescaled",
        **PROCESSES,
        parallelism=2,
        directory=folder / "job",
        checkpoint_dir=folder / "checkpoints",
        checkpoint_interval="100ms",
        restart_delay="1ms",
    )
    live = []
    for number, count in enumerate(instances, 1):
        rows = ROWS * number // (len(instances) + 1)
        metered.give(rows)
        until(lambda rows=rows: handle.metrics().source_rows >= PARTITIONS * rows, handle)  # type: ignore[misc]
        live.append(handle.rescale("per key", count).live)
    metered.give(ROWS)
    counted = handle.wait().checkpoints
    assert counted is not None
    print(json.dumps({"live": live, "restarts": counted.restarts}))


if __name__ == "__main__":
    address, name, place, counts = sys.argv[1:]
    run(address, name, Path(place), [int(count) for count in counts.split(",") if count])
