"""Small pipelines for the simulator: over some hundreds of rows, in batches of a few."""

from functools import cache

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock import col, count, sum_
from penstock.engine.executors.simulated import Simulation, record_pipeline
from penstock.engine.executors.simulation.faults import Faults

ROWS = 168
"""Not a multiple of what a source hands out at a time: batches end between rows that are out of order."""


def rows(seed, keys=12, count=ROWS):
    """Return rows whose times are out of order by less than the watermark delay."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 60_000_000, count)) + rng.integers(0, 900_000, count)
    return pa.table(
        {
            "key": pa.array(rng.integers(0, keys, count)),
            "value": pa.array(rng.integers(0, 1_000, count)),
            "at": pa.array(times).cast(pa.timestamp("us")),
        }
    )


def read(job, seed, name="rows", count=ROWS):
    return ps.read_memory(rows(seed, count=count), time="at", watermark="1s", job=job).name(name)


def counted(job):
    """A count per key that is corrected with every row: a changelog."""
    read(job, 1).key_by("key").agg(n=count(), total=sum_("value")).name("counts").collect().name("out")


def tumbled(job):
    """Tumbling windows."""
    windows = read(job, 2).key_by("key").window(ps.tumbling("5s")).agg(n=count(), total=sum_("value"))
    windows.name("windows").collect().name("out")


def sessions(job):
    """Sessions."""
    found = read(job, 3).key_by("key").window(ps.session("2s")).agg(n=count(), total=sum_("value"))
    found.name("sessions").collect().name("out")


def joined(job):
    """An updating join of two sources, and a count of it by another key."""
    right = read(job, 5, "right", ROWS // 2).rename(value="other", at="then")
    both = read(job, 4, "left", ROWS // 2).filter(col("value") < 500).join(right, on="key").name("join")
    both.key_by(bucket=col("other") % 7).agg(n=count(), total=sum_("value")).name("counts").collect().name("out")


def apart(job):
    """Two pipelines that share no channel: one may fail, and the other runs on."""
    windows = read(job, 6, "these", ROWS // 2).key_by("key").window(ps.tumbling("5s")).agg(n=count())
    windows.name("windows").collect().name("out")
    totals = read(job, 7, "those", ROWS // 2).key_by("key").agg(total=sum_("value"))
    totals.name("totals").collect().name("beside")


def nested(job):
    """Aggregates by more keys than their rows are partitioned by, so that their state lies by fewer."""
    windows = read(job, 8).key_by("key").window(ps.tumbling("2s")).agg(n=count(), total=sum_("value")).name("windows")
    wider = windows.key_by("n", "key").window(ps.tumbling("6s")).agg(total=sum_("total")).name("wider")
    wider.key_by("n", "key").agg(windows=count(), total=sum_("total")).name("counts").collect().name("out")


def near(job):
    """An interval join, which forgets rows as soon as no partner can come, and a count of it by more keys."""
    right = read(job, 5, "right", ROWS // 2).rename(value="other", at="then")
    both = read(job, 4, "left", ROWS // 2).interval_join(right, on="key", between=("-3s", "5s")).name("near")
    both.key_by("key", "other").agg(n=count(), total=sum_("value")).name("counts").collect().name("out")


PIPELINES = {
    "counted": counted,
    "tumbled": tumbled,
    "sessions": sessions,
    "joined": joined,
    "apart": apart,
    "nested": nested,
    "near": near,
}


def simulation(name, **options):
    """Return a pipeline ready to be run by seeds."""
    job = ps.Job()
    PIPELINES[name](job)
    return Simulation(record_pipeline(job.graph, 10_000), **options)


@cache
def shared(name):
    """Return the simulation of all faults, made once."""
    return simulation(name, faults=Faults())


def in_parts(seeds, most=50):
    """Return the seeds from 1 on, so many, in parts that a test of the long suite tries within its five minutes.

    All are about as large, as of a few seeds not every kind of fault comes up.
    """
    parts = -(-seeds // most)
    return [range(1 + seeds * part // parts, 1 + seeds * (part + 1) // parts) for part in range(parts)]


def part_name(seeds):
    """Return how a test of a part is called."""
    return f"{seeds[0]}-{seeds[-1]}"
