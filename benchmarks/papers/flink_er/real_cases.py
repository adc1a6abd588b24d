"""The runs of Flink-ER on real parts: load that doubles in a step, its rival, and controls without a step."""

from dataclasses import dataclass, replace

from penstock.benchmarks.papers.flink_er.real_applications import EVENTS, HELD, LINES, WORD_COUNT, YAHOO
from penstock.benchmarks.papers.real.case import RealCase
from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.wanted import Times, in_smoke
from penstock.scheduler.flink_er import FlinkEr

_MODULE = "penstock.benchmarks.papers.flink_er"
LOADS = (0.7, 1.4)
"""Parts of what one instance can take, before the step and after it."""

SECONDS = {Scale.FULL: (60.0, 150.0), Scale.SHORT: (45.0, 70.0), Scale.SMOKE: (10.0, 32.0)}
"""How long each load lasts."""

WORKLOADS = ("zipf-0", "zipf-0.5", "zipf-1", "yahoo")
LARGE = "zipf-1-large"
"""The same words with ten times the state."""

WIDER = {"zipf-1-from-2": "zipf-1", "yahoo-from-2": "yahoo"}
"""Workloads that begin with two instances, twice the load, and four cores; by name what they are otherwise.

The rows of one instance go by another exchange than those of two, so that the change from one begins the job anew.
"""

RESTART, CALM, NOBODY = "restart", "calm", "nobody"
"""After the name of a workload: the rival, a load that does not rise, and a step at which nobody acts."""

SHOWN = ("zipf-1", "yahoo")
"""Workloads whose rival is run at every scale."""

KEY_GROUPS, LARGE_KEY_GROUPS = 8, 64
"""Few, so that each has many rows a second, and a pause of one is seen; more where each has ten times the state."""

_ZIPF = {"zipf-0": 0.0, "zipf-0.5": 0.5, "zipf-1": 1.0, LARGE: 1.0}
_ACTS = {"scale": "flink-er", "mode": "act", "cores": 2}
_LIMIT_S = 60.0
_EVENTS_PER_S = 1_300.0
"""About what one instance takes of events: to measure it takes longer than a small run."""


@dataclass(frozen=True, slots=True)
class Quick(FlinkEr):
    """Flink-ER that looks every few seconds: for a run of less than a minute."""

    owns = ("parallelism", "owners of buckets", "routes")
    period_s: float = 4.0


def case(scale: Scale, workload: str) -> RealCase:
    """Return the run of a workload in which Flink-ER acts."""
    is_words = workload != "yahoo"
    is_smoke = scale is Scale.SMOKE
    return RealCase(
        workload,
        WORD_COUNT if is_words else YAHOO,
        {"lines": LINES[_ZIPF[workload]]} if is_words else {"events": EVENTS},
        (0.25,) * 4,
        tuple(zip(LOADS, SECONDS[scale], strict=True)),
        control={**_ACTS, "scale": f"{_MODULE}.real_cases:Quick"} if is_smoke else _ACTS,
        executor="processes",
        calibration_rows=_rows(is_words=is_words, is_smoke=is_smoke),
        # What moves waits for the batch under way, and there is more to move; smaller ones cost four instances a tenth.
        batch_rows=16 if workload == LARGE else 64,
        # A default channel holds minutes of rows that take so long, and a source that has read all has no lag. While a
        # checkpoint is written, rows wait for it key group by key group; it is to be that of a change of instances.
        start={
            "parallelism": 1,
            "key_groups": LARGE_KEY_GROUPS if workload == LARGE else KEY_GROUPS,
            "channel_bytes": 2_048,
            "checkpoint_interval": "2m",
        },
        has_checkpoints=True,
        first={"lines": HELD[workload == LARGE]} if is_words else {},
        catch_up_s=_LIMIT_S,
        capacity=_EVENTS_PER_S if is_smoke and not is_words else 0.0,
        exact=f"{_MODULE}.real_applications:{'exact_words' if is_words else 'exact_views'}",
    )


def wider(scale: Scale, name: str) -> RealCase:
    """Return the run of a workload that begins with two instances."""
    narrow = case(scale, WIDER[name])
    return replace(
        narrow,
        name=name,
        loads=tuple((2 * load, seconds) for load, seconds in narrow.loads),
        control={**narrow.control, "cores": 4},
        options={**narrow.options, "counting": 2},
        task_managers=2,
    )


def _rows(*, is_words: bool, is_smoke: bool) -> int:
    """Return how many messages are one, or six, seconds of work."""
    return (120 if is_words else 1_500) * (1 if is_smoke else 6)


def cases(scale: Scale, runs: int) -> Times:
    """Return what can be run, and how often each is."""
    few, is_full = max(1, runs // 3), scale is Scale.FULL
    acting = [case(scale, workload) for workload in WORKLOADS]
    acting += [wider(scale, name) for name in WIDER]
    acting.append(case(scale, LARGE))
    skewed = case(scale, "zipf-1")
    calm = replace(skewed, name=f"zipf-1-{CALM}", loads=((LOADS[0], sum(SECONDS[scale])),))
    nobody = replace(skewed, name=f"zipf-1-{NOBODY}", control={}, catch_up_s=0.0)
    every = [
        *((each, runs if is_full or each.name != LARGE else 0) for each in acting),
        *((restarted(each), few if is_full or each.name in SHOWN else 0) for each in acting),
        *((each, few) for each in (calm, nobody)),
    ]
    return in_smoke(every, ("yahoo",)) if scale is Scale.SMOKE else every


def restarted(acting: RealCase) -> RealCase:
    """Return the run in which what the policy recommends is done by savepoint, stop and start."""
    control = {**acting.control, "mode": "recommend"}
    return replace(acting, name=f"{acting.name}-{RESTART}", control=control, restarts=True)
