"""What waits of each partition when a cycle ends, for the estimate of rates by lag maxima (Stream-Economics, 6).

A Kafka client's records-lag-max is the largest in a window of its own. Here the window is the last look at readers: the
rows that were read are counted up to then, and a maximum from before that is not of the same moment
(docs/decisions/0149-lags-are-those-at-the-end-of-a-cycle.md).
"""

from dataclasses import replace

import numpy as np

from penstock.model.columns import Floats
from penstock.model.snapshot import ClusterSnapshot


def with_lag_maxima(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot of a cycle with what waits at its end, where readers know it."""
    lag = _lag(snapshot)
    return snapshot if lag is None else replace(snapshot, partitions=replace(snapshot.partitions, lag_max=lag))


def _lag(snapshot: ClusterSnapshot) -> Floats | None:
    partitions = snapshot.partitions
    if partitions.end_offset is None or partitions.position is None or not len(partitions):
        return None
    return np.maximum(partitions.end_offset - partitions.position, 0.0)
