"""The cost of a tick in the head of a job with 2,000 instances: all readings, and what each policy decides on them.

``python -m penstock.benchmarks.papers.tick_cost [POLICY ...]`` runs the control of a made-up job as its head does, with
each policy in turn: readings come as messages from each task manager once a second, and who scales looks at its own
interval. Each instance has a core of its own, and is offered twice what it takes. Who scales recommends, so that it
decides at each look; who sheds acts, and what it orders is encoded for each task manager. The instances are made up,
all else is what runs.
"""

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from penstock.benchmarks.papers.made_up_job import ON_MANAGER, MadeUpJob, plan, tick
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.policies import POLICIES
from penstock.engine.control.scale_control import ScaleSettings
from penstock.engine.control.steering import role_of
from penstock.model.config import LoopOptions
from penstock.model.control import SHED, Control, Shed
from penstock.scheduler.ownership import Level

INSTANCES = 2_000
DECISIONS = 6
MOST_S = 1_200
"""After so many made-up seconds a policy that does not decide is given up."""

NAMES = tuple(name for name in sorted(POLICIES) if role_of(name).level > Level.START)
"""Policies that look on their own, and are timed. Placement looks at every tick, whoever else does."""

NOT_MEASURED = "not measured"
"""What the reason of who lacks a figure begins with."""

_TOLD = 60
"""Characters of a reason that are printed."""

_OPTIONS = LoopOptions(state_bytes=64 << 20)


@dataclass(frozen=True, slots=True)
class TickCost:
    """Medians: CPU of the ticks at which a policy decides, and of the others, each with the readings before it.

    ``decides_wall_ms`` is the time of the former; ``most_ms`` the most CPU that any took. ``decided``: how many there
    were, ``reason``: that of the last one. Who ``is_blind`` wants figures that the made-up job lacks: its
    costs are those of seeing that.
    """

    policy: str
    instances: int
    decides_ms: float
    decides_wall_ms: float
    quiet_ms: float
    most_ms: float
    decided: int
    reason: str

    @property
    def is_blind(self) -> bool:
        """Whether the policy could not decide on what it saw."""
        return self.reason.startswith(NOT_MEASURED)


class TooSeldomError(ValueError):
    """A policy decides too seldom to be timed."""


def measure(policy: str, instances: int = INSTANCES, decisions: int = DECISIONS) -> TickCost:
    """Run the control of a job with about so many instances until a policy has decided so often.

    Raises:
        TooSeldomError: it does not within `MOST_S`, as one that wants long windows.
    """
    job = MadeUpJob(plan(instances), cores=ON_MANAGER)
    sheds = role_of(policy).level is Level.KEEP
    shed = cast(Shed, policy if policy in SHED else POLICIES[policy])
    control = Control(shed, "act") if sheds else Control(scale=policy)
    shedding = LoadShedding(job.graph, control) if sheds else None
    scaling = None if sheds else ScaleSettings(control)
    head = JobControl("cost", job.graph, _OPTIONS, 0, shedding=shedding, scaling=scaling)
    deciding, others, walls, order = list[float](), list[float](), list[float](), None
    reason = ""
    before, warm = head.scaling_status(), True
    gc.collect()
    for _ in range(MOST_S):
        said = job.readings(order)
        began, began_own = time.perf_counter_ns(), time.process_time_ns()
        decided = tick(head, job, said)
        own_ms, wall_ms = (time.process_time_ns() - began_own) / 1e6, (time.perf_counter_ns() - began) / 1e6
        status = head.scaling_status()
        has_decided = decided is not None or status is not before
        before = status
        if decided is not None:
            order = decided
            reason = f"{len(decided.rates.sources)} sources are shed"
        elif status is not None:
            reason = status.reason
        # What is learnt and cached at the first decision is none of its cost.
        if has_decided and warm:
            warm = False
        elif has_decided:
            deciding.append(own_ms)
            walls.append(wall_ms)
        elif not warm:
            others.append(own_ms)
        if len(deciding) == decisions:
            break
    else:
        raise TooSeldomError(f"{policy} decided {len(deciding)} times in {MOST_S} s")
    decides, wall, quiet = (float(np.median(each)) for each in (deciding, walls, others))
    return TickCost(policy, job.instances, decides, wall, quiet, max(deciding + others), len(deciding), reason)


def main(argv: Sequence[str] | None = None) -> int:
    """Print one line a policy."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.papers.tick_cost", description=__doc__)
    parser.add_argument("policies", metavar="POLICY", nargs="*", help=f"{', '.join(NAMES)}; default: all of them")
    names: list[str] = parser.parse_args(argv).policies
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not timed; choose from {', '.join(NAMES)}")
    titles = (("instances", 10), ("decides ms", 11), ("wall ms", 8), ("other ms", 9), ("most ms", 8))
    print(f"{'policy':<14} " + " ".join(title.rjust(width) for title, width in titles))
    for name in names or NAMES:
        try:
            cost = measure(name)
        except TooSeldomError as error:
            print(f"{name:<14} {error}", flush=True)
            continue
        print(
            f"{cost.policy:<14} {cost.instances:>10,} {cost.decides_ms:>11.1f} {cost.decides_wall_ms:>8.1f} "
            f"{cost.quiet_ms:>9.1f} {cost.most_ms:>8.1f}  {cost.reason[:_TOLD]}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
