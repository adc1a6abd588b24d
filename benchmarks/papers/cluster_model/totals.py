"""Totals of a simulated cluster since it began: the truth, of which reports show a part, late and off.

Instances, inputs and outputs have a place for life, so that a report can be compared with any later one.
"""

from dataclasses import dataclass, fields

import numpy as np

from penstock.model.columns import Floats


@dataclass(slots=True)
class Totals:
    """Arrays that only grow: rows, seconds, bytes; by instance, input, output, machine, application and bucket.

    ``queue_rows_s`` is the sum of rows that waited, over time; ``latency_s`` of every row's wait and service;
    ``get_s``, ``get_p90_s`` and ``put_s`` of each over time.
    """

    records_in: Floats
    busy_s: Floats
    remote_s: Floats
    core_wait_s: Floats
    input_wait_s: Floats
    output_wait_s: Floats
    cpu_s: Floats
    queue_rows_s: Floats
    cache_hits: Floats
    cache_misses: Floats
    get_s: Floats
    get_p90_s: Floats
    put_s: Floats
    stall_s: Floats
    offered: Floats
    records_out: Floats
    dropped: Floats
    machine_cpu_s: Floats
    machine_disk_bytes: Floats
    machine_kills: Floats
    network_data_bytes: Floats
    network_checkpoint_bytes: Floats
    network_other_bytes: Floats
    gc_s: Floats
    gc_count: Floats
    throttled_s: Floats
    application_cpu_s: Floats
    application_kills: Floats
    disk_io_bytes: Floats
    calls: Floats
    errors: Floats
    retries: Floats
    call_latency_s: Floats
    end_offset: Floats
    fetched: Floats
    lag_sum: Floats
    bucket_records: Floats

    def copy(self) -> "Totals":
        """Return what was counted so far."""
        return Totals(**{name: getattr(self, name).copy() for name in _NAMES})

    def since(self, before: "Totals") -> "Totals":
        """Return what was counted since another moment."""
        return Totals(**{name: getattr(self, name) - getattr(before, name) for name in _NAMES})


_NAMES = tuple(field.name for field in fields(Totals))
_GROUPS = {
    "inputs": ("offered",),
    "outputs": ("records_out", "dropped"),
    "machines": (
        "machine_cpu_s",
        "machine_disk_bytes",
        "machine_kills",
        "network_data_bytes",
        "network_checkpoint_bytes",
        "network_other_bytes",
    ),
    "applications": ("gc_s", "gc_count", "throttled_s", "application_cpu_s", "application_kills", "disk_io_bytes"),
    "services": ("calls", "errors", "retries", "call_latency_s"),
    "partitions": ("end_offset", "fetched", "lag_sum"),
    "buckets": ("bucket_records",),
}
"""What is counted by anything but instances."""


def no_totals(slots: int, **counts: int) -> Totals:
    """Return zeros for so many slots of instances, and of each of `_GROUPS`."""
    sizes = {name: counts[group] for group, names in _GROUPS.items() for name in names}
    return Totals(**{name: np.zeros(sizes.get(name, slots)) for name in _NAMES})
