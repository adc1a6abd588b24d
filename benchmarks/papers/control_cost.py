"""The cost of load shedding in the head: a cycle of collecting, deciding and sending, and the share of a core it takes.

``python -m penstock.benchmarks.papers.control_cost [INSTANCES ...]`` runs the control of a job that is offered twice
what it can take, as its head does: readings come as messages from each task manager once a second, a cycle is every
fifth (Stream-Economics, Figure 6: 115 ms at 2,000 instances). The instances are made up, all else is what runs.
"""

import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.benchmarks.papers.made_up_job import MadeUpJob, plan, tick
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.load_shedding import LoadShedding
from penstock.model.config import LoopOptions
from penstock.model.control import Control

SIZES = (500, 2_000)
CYCLES = 12
WARM = 3
"""Cycles before those that count."""


@dataclass(frozen=True, slots=True)
class ControlCost:
    """Medians over cycles.

    ``cycle_ms``: from the first reading that is decoded to the last order that is encoded, ``cycle_cpu_ms`` of it on a
    core; ``core_percent``: what all readings and ticks take of a core; ``shed``: sources in the last order.
    """

    instances: int
    managers: int
    cycle_ms: float
    cycle_cpu_ms: float
    core_percent: float
    shed: int


def measure(instances: int, cycles: int = CYCLES) -> ControlCost:
    """Run the control of a job with about so many instances for some cycles."""
    control = Control("qod", "act")
    job = MadeUpJob(plan(instances))
    shedding = LoadShedding(job.graph, control)
    head = JobControl("cost", job.graph, LoopOptions(), 0, shedding=shedding)
    walls, cpus, percents, order = list[float](), list[float](), list[float](), None
    gc.collect()
    for cycle in range(WARM + cycles):
        own = 0
        for second in range(control.period_s):
            said = job.readings(order)
            began, began_own = time.perf_counter_ns(), time.process_time_ns()
            order = tick(head, job, said) or order
            took = time.process_time_ns() - began_own
            own += took
            if second == control.period_s - 1 and cycle >= WARM:
                walls.append((time.perf_counter_ns() - began) / 1e6)
                cpus.append(took / 1e6)
        if cycle >= WARM:
            percents.append(own / (control.period_s * 1e7))
    shed = 0 if order is None else len(order.rates.sources)
    wall, cpu, percent = (float(np.median(each)) for each in (walls, cpus, percents))
    return ControlCost(job.instances, len(job.managers), wall, cpu, percent, shed)


def main(sizes: Sequence[int]) -> None:
    """Print one line a size."""
    print(f"{'instances':>10} {'managers':>9} {'cycle ms':>9} {'CPU ms':>8} {'% of a core':>12} {'sources shed':>13}")
    for size in sizes or SIZES:
        cost = measure(size)
        print(
            f"{cost.instances:>10,} {cost.managers:>9} {cost.cycle_ms:>9.1f} "
            f"{cost.cycle_cpu_ms:>8.1f} {cost.core_percent:>12.1f} {cost.shed:>13}"
        )


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
