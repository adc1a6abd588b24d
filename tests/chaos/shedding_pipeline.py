"""The pipeline under attack that sheds: three queries of a topic, exactly once, at rates that change all the time.

Arguments: the address of the broker; the topic it reads; one of `WAYS`; the topics it writes, as
``ROWS,TOTALS,WINDOWS``; the directory of the job. One life in four that sheds sets no rates: they are off, whatever the
life before it has done.
"""

import math
import random
import sys

import penstock as ps
from penstock.model.keep_rates import STEPS, KeepRates
from penstock.model.option_literals import WriteMode
from penstock.model.strata import Strata
from tests.set_rates import set_by_clock

WAYS = ("sheds", "deals", "whole", "dealt")
"""What sheds, what does so by strata of message keys, and the same two without setting rates."""

MINIMUM = {"rows": 0.1, "totals": 0.25, "windows": 0.05}
"""The minimum accuracy of each query; its sink has its name with `` out`` behind it."""

WINDOW_MS = 100
CHANGE_S = (0.01, 0.1)
"""The time between two changes of rates."""

ORDERS = {"shop": int, "paid": float}

dice = random.Random()


def some_rates() -> KeepRates:
    """Return rates within the minimums: a source keeps no less than its strictest query."""
    if dice.random() < 0.15:
        return KeepRates()
    source = dice.randint(STEPS // 4, STEPS)
    steps = {name: dice.randint(math.ceil(least * STEPS), STEPS) for name, least in MINIMUM.items()}
    branches = {("orders read", name): step / STEPS for name, step in steps.items() if step < source}
    return KeepRates({"orders": source / STEPS}, branches)


def strata_of(way: str) -> Strata | None:
    """Return the strata that the estimates of a way want."""
    return "key" if way in ("deals", "dealt") else None


def build(broker: str, given: str, outputs: list[str], strata: Strata | None = None) -> ps.Job:
    """Return the job with its queries; those that are estimates want ``strata``."""
    job = ps.Job()
    orders = ps.read_kafka(
        given,
        kafka=broker,
        schema=ORDERS,
        metadata={"partition": "part", "offset": "place", "timestamp": "at"},
        time="at",
        until="latest",
        job=job,
    ).name("orders")
    read = orders.select("part", "place", "shop", "paid", "at").name("orders read")
    rows = read.select("part", "place").name("rows")
    totals = read.key_by("shop").agg(n=ps.count(), paid=ps.sum_("paid")).name("totals")
    windows = (
        read.key_by("shop")
        .window(ps.tumbling(f"{WINDOW_MS}ms"))
        .agg(n=ps.count(), paid=ps.sum_("paid"))
        .name("windows")
    )
    for (name, minimum), stream, topic in zip(MINIMUM.items(), (rows, totals, windows), outputs, strict=True):
        mode: WriteMode = "changelog" if stream.updating else "append"
        sink = stream.write_kafka(topic, kafka=broker, guarantee="exactly_once", mode=mode)
        wanted = None if name == "rows" else strata
        sink.name(f"{name} out").with_min_accuracy(minimum, strata=wanted)
    return job


if __name__ == "__main__":
    broker, given, way, outputs, directory = sys.argv[1:6]
    if way in WAYS[:2] and dice.random() < 0.75:
        set_by_clock(some_rates, lambda: dice.uniform(*CHANGE_S))
    build(broker, given, outputs.split(","), strata_of(way)).run("sheds", directory=directory, restart_delay="50ms")
