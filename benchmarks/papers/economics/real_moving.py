"""Taxi Drives on two task managers, of which one has too much: rides from Kafka, waits as for an answer, counts by key.

Every row waits in each sink's operator, which takes no core: two cores suffice, and a busy machine changes little. All
zones of the first sink belong to its first instance, and most of the second's, so that the first task manager has more
than it can take, and the other one has room.
"""

import json
import time
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.benchmarks.papers.economics.applications import SINKS
from penstock.benchmarks.papers.real.application import Application, Counted, Setting
from penstock.model.process import OpenContext
from penstock.state.keys.batch_keys import KeyCodec

_MODULE = "penstock.benchmarks.papers.economics.real_moving"
MOVING, ZONED_RIDES = f"{_MODULE}:moving", f"{_MODULE}:zoned_rides"

INSTANCES = 2
ROW_S = dict(zip(SINKS, (0.0025, 0.005), strict=True))
"""By sink how long a row waits."""

FULL = 200.0
"""Rows a second at which the first sink's operator waits half of the time, and the second's all of it, in all."""

OTHER_EVERY = 5
"""Of the second sink's rows every so many-th, in each partition, is of its second instance."""

FIRST_SHARE = 1 - 1 / OTHER_EVERY
"""Of the second sink's rows so many are of its first instance."""

MINIMUM = 0.95
"""Of each sink: at `FULL` 1.24 times what a task manager has is asked of the first one."""

COUNT = " counts"
"""What the operators are called that wait, after their sink."""

_ZONES = 64
_POOL = 4_000
_SEED = 23
_COUNTED = {"zone": int, "n": int, "at_ns": int, "owner": int}


def zones(instance: int) -> list[int]:
    """Return zones that belong to one of two instances while no key group has moved."""
    numbers = pa.array(np.arange(4 * _ZONES))
    hashes = KeyCodec([pa.int64()]).hash([numbers], len(numbers))
    own = np.flatnonzero((hashes >= 2**63) == bool(instance))
    return [int(number) for number in own[:_ZONES]]


def zoned_rides() -> list[bytes]:
    """Return messages of rides: a zone for each sink.

    Instances get their shares evenly. Drawn at random the second instance of the second sink would get 400 rows in 10 s
    with a standard deviation of 18, and its throughput dip by 9% though nothing stands still.
    """
    random = np.random.default_rng(_SEED)
    first, second = zones(0), zones(1)
    drawn = random.integers(0, len(first), (_POOL, 2))
    is_first = np.arange(_POOL) % OTHER_EVERY > 0
    return [
        json.dumps({"begin": first[begin], "end": (first if own else second)[end]}).encode()
        for (begin, end), own in zip(drawn.tolist(), is_first.tolist(), strict=True)
    ]


class Counts(ps.Process):
    """Counts rows of a zone; each waits so long."""

    counted = ps.value_state(int)

    def __init__(self, row_s: float) -> None:
        """Wait ``row_s`` seconds at each row."""
        self._row_s = row_s

    def open(self, context: OpenContext) -> None:
        """Note who counts."""
        self._owner = context.instance

    def process(self, row: dict[str, Any], context: Any) -> dict[str, Any]:
        """Return what the count is now, when, and who counted."""
        time.sleep(self._row_s)
        count = (self.counted.get() or 0) + 1
        self.counted.set(count)
        return {"zone": row["zone"], "n": count, "at_ns": time.monotonic_ns(), "owner": self._owner}


def moving(setting: Setting) -> Application:
    """Return the job; each sink has the minimum `MINIMUM`, and all have the same priority."""
    job = ps.Job()
    rides = ps.read_kafka(
        setting.topics[0],
        kafka=setting.kafka,
        schema={"begin": int, "end": int},
        metadata={"timestamp": "at"},
        time="at",
        watermark="500ms",
        until=setting.until,
        job=job,
    ).name("rides")
    for sink, column in zip(SINKS, ("begin", "end"), strict=True):
        keyed = rides.select("at", zone=column).name(f"to {sink}").key_by("zone")
        counted = keyed.process(Counts(ROW_S[sink]), _COUNTED, order="arrival").name(sink + COUNT)
        written = counted.write_parquet(setting.folder / sink).name(sink)
        written.with_min_accuracy(MINIMUM, columns=False)
    return Application(job, {sink: Counted(sink + COUNT, setting.topics) for sink in SINKS})
