"""The largest lag of each partition within a cycle, from the snapshots that are taken meanwhile (Stream-Economics, 6).

A Kafka client's records-lag-max, which its readers do not keep: here it is the largest of what they say once a second.
"""

from dataclasses import replace

import numpy as np

from penstock.model.columns import Floats
from penstock.model.snapshot import ClusterSnapshot


class LagMaxima:
    """What waited at most of each partition since the last cycle; partitions are told apart by their rows."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._readers = np.zeros(0, np.int32)
        self._largest: Floats | None = None

    def see(self, snapshot: ClusterSnapshot) -> None:
        """Take in what waits now; where partitions have come or gone, what was seen before does not count."""
        lag = _lag(snapshot)
        if lag is None:
            return
        if self._largest is not None and np.array_equal(self._readers, snapshot.partitions.instance):
            lag = np.fmax(self._largest, lag)
        self._readers, self._largest = snapshot.partitions.instance, lag

    def of_cycle(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Return the snapshot of a whole cycle with the maxima in it, and begin the next one."""
        self.see(snapshot)
        largest, self._largest = self._largest, None
        if largest is None or not np.array_equal(self._readers, snapshot.partitions.instance):
            return snapshot
        return replace(snapshot, partitions=replace(snapshot.partitions, lag_max=largest))


def _lag(snapshot: ClusterSnapshot) -> Floats | None:
    partitions = snapshot.partitions
    if partitions.end_offset is None or partitions.position is None or not len(partitions):
        return None
    return np.maximum(partitions.end_offset - partitions.position, 0.0)
