"""What a scaler sees that is fed with rates after shedders: the negative control of scaling beside shedding."""

from dataclasses import replace

import numpy as np

from penstock.model.snapshot import ClusterSnapshot


def as_if_nothing_were_shed(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return a snapshot by which sources are offered what they let through, and drop nothing.

    Raises:
        ValueError: what instances took, or what was read of partitions, was not measured.
    """
    instances, partitions = snapshot.instances, snapshot.partitions
    if instances.records_in is None or partitions.consumed is None:
        raise ValueError("rates after shedders are those of rows that were measured")
    taken = np.bincount(instances.task, np.nan_to_num(instances.records_in), len(snapshot.tasks))
    of = instances.task[partitions.instance]
    fetched = np.bincount(of, partitions.consumed, len(snapshot.tasks))
    kept = partitions.consumed * np.minimum(taken[of] / np.maximum(fetched[of], 1.0), 1.0)
    outputs = replace(snapshot.outputs, dropped=np.zeros(len(snapshot.outputs)))
    return replace(snapshot, outputs=outputs, partitions=replace(partitions, consumed=kept, appended=kept))
