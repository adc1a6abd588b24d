"""Limits on the cores of plans: the quota, of which other jobs have a part. Called by `plan_limits`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.model.plan import CoreNeed
from penstock.scheduler.core_needs import hosting_machines
from penstock.scheduler.limits import PlanBounds

OF_CORES = "the quota of cores"


def limited_cores(needs: Sequence[CoreNeed], bounds: PlanBounds) -> tuple[CoreNeed, ...]:
    """Return the needs within the quota, where each core is a task manager; instances lie on no fewer for that."""
    limits, allowed = bounds.limits, []
    applications = bounds.snapshot.applications
    quota = np.inf
    if limits.one_per_core:
        left = limits.cores_quota(bounds.snapshot.machines, bounds.usable) - bounds.elsewhere_cores
        quota = max(1.0, float(np.floor(left)))
    for need in needs:
        if not (0 <= need.application < len(applications) and 0 < need.cores < np.inf):
            bounds.refuse(f"application {need.application}", "task managers", "there is none, or a need is finite")
            continue
        granted = min(need.cores, quota)
        if need.spreads and granted < need.cores:
            name = applications.name[need.application]
            bounds.refuse(name, "task managers", OF_CORES, float(np.ceil(need.cores)), granted)
            if granted <= hosting_machines(bounds.snapshot, need.application):
                need = replace(need, spreads=False)
        allowed.append(need if granted == need.cores else replace(need, cores=granted))
    return tuple(allowed)
