"""The machines that may take an instance at all. Used by the guards of every policy and by placement."""

import numpy as np

from penstock.model.columns import Bools
from penstock.model.snapshot import MachineColumns


def usable_machines(machines: MachineColumns, lost_after_s: float) -> Bools:
    """Return the machines with a heartbeat within ``lost_after_s``, with cores, and within their memory limit.

    A missing figure excludes no machine.
    """
    usable = machines.cores > 0
    if machines.heartbeat_age_s is not None:
        usable &= ~(machines.heartbeat_age_s > lost_after_s)
    if machines.resident_bytes is not None and machines.memory_limit_bytes is not None:
        usable &= ~(machines.resident_bytes > machines.memory_limit_bytes)
    return np.asarray(usable, np.bool_)
