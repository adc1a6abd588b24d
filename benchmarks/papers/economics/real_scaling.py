"""QoD beside a scaler on real parts: bids from Kafka are looked at, each for 10 ms, and counted by bidder in windows.

Looking at one takes no core. When more come QoD sheds at once what the instances do not take, and the scaler is to end
that.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import penstock as ps
from penstock.benchmarks.papers.cluster_model.blind_view import as_if_nothing_were_shed
from penstock.benchmarks.papers.justin.real_queries import BIDS
from penstock.benchmarks.papers.real.application import Application, Counted, Setting, under_contract
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.scale import Scale
from penstock.model.plan import Decision
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.ds2 import Ds2
from penstock.scheduler.pacing import PaceStates

_MODULE = "penstock.benchmarks.papers.economics.real_scaling"
COUNTING = f"{_MODULE}:counting"
TOGETHER, ALONE, BLIND = "qod-ds2", "ds2-alone", "qod-ds2-blind"
"""QoD and DS2, DS2 alone, and QoD and a DS2 that sees what was let through as what was offered."""

QUERY, LOOK = "bids of bidders", "look"
MINIMUM = 0.3
ROW_S = 0.01
INSTANCE_ROWS_PER_S = 95.0
"""About what one instance takes."""

INSTANCES = 2
"""Look in the beginning; all else has one, and needs no more."""

LOADS = (1.3, 3.2)
"""Parts of what one instance takes, before and after the step: for two and four instances, with room for the rest."""

CORES = 4

SECONDS = {Scale.FULL: (60.0, 300.0), Scale.SHORT: (45.0, 150.0), Scale.SMOKE: (10.0, 30.0)}
"""How long each lasts."""


@dataclass(frozen=True, slots=True)
class BlindDs2(Ds2):
    """DS2 that is fed with rates after shedders and not told that rows are shed."""

    owns = ("parallelism",)

    def decide(self, snapshot: ClusterSnapshot, memory: PaceStates) -> tuple[Decision, PaceStates]:
        """Decide by what was let through."""
        # A class with slots is made anew, so that `super()` without arguments would be of the one before.
        return Ds2.decide(self, as_if_nothing_were_shed(snapshot), memory)


def look(row: dict[str, Any]) -> dict[str, Any]:
    """Return a bid after a while."""
    time.sleep(ROW_S)
    return row


def counting(setting: Setting) -> Application:
    """Return bids of each bidder in windows of five seconds; option ``contracts`` as of `under_contract`."""
    job = ps.Job()
    bids = ps.read_kafka(
        setting.topics[0], kafka=setting.kafka, schema={"bidder": int, "price": int}, metadata={"timestamp": "at"},
        time="at", watermark="500ms", until=setting.until, job=job,
    ).name("bids")  # fmt: skip
    seen = bids.rebalance().map(look).name(LOOK).parallelism(INSTANCES)
    counted = seen.key_by("bidder").window(ps.tumbling("5s")).agg(bids=ps.count()).name("count")
    under_contract(counted.write_parquet(setting.folder / "out"), setting, QUERY)
    return Application(job, {QUERY: Counted(LOOK, setting.topics)})


def scaling_cases(scale: Scale) -> list[RealCase]:
    """Return the runs: both, the scaler alone, and both with a scaler that is not told what is shed."""
    blind = f"{BlindDs2.__module__}:{BlindDs2.__qualname__}"
    return [
        _case(TOGETHER, scale, {"shed": "qod", "scale": "ds2"}),
        _case(ALONE, scale, {"scale": "ds2"}),
        _case(BLIND, scale, {"shed": "qod", "scale": blind}),
    ]


def _case(name: str, scale: Scale, control: Mapping[str, Any]) -> RealCase:
    return RealCase(
        name,
        COUNTING,
        BIDS,
        (0.25,) * 4,
        tuple(zip(LOADS, SECONDS[scale], strict=True)),
        control={"mode": "act", "cores": CORES, "parameters": {"pace": {"interval_s": 10.0}}, **control},
        options={"contracts": {QUERY: (MINIMUM, 1)}} if "shed" in control else {},
        executor="processes",
        task_managers=INSTANCES,
        batch_rows=16,
        start={"parallelism": 1, "channel_bytes": 4_096, "checkpoint_interval": "2m"},
        has_checkpoints=True,
        catch_up_s=30.0,
        capacity=INSTANCE_ROWS_PER_S,
    )
