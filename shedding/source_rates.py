"""The input rate of a source, from the log that it reads: Stream-Economics, section 6, "Accuracy of Source Tasks".

Exact by end offsets where the log has them; from lag maxima as the paper does with a Kafka client's metrics.
"""

import numpy as np

from penstock.model.columns import Floats
from penstock.model.task_levels import Indexes
from penstock.shedding.group_sums import total_with_means


def offered_by_end_offsets(appended: Floats, instance: Indexes, instances: int, window_s: float) -> Floats:
    """Return offered(i), rows/s: the growth of the end offsets of its partitions.

    appended: rows by partition; instance: its reader. A partition that was not measured (NaN) counts as the mean of
    the instance's others; NaN where there is none.
    """
    return total_with_means(appended, instance, instances) / window_s


def offered_by_lag_maxima(
    lag_max: Floats, lag_max_before: Floats, consumed_rate: Floats, partitions: Floats, elapsed_s: float
) -> Floats:
    """Return offered(i) = P * (d(lag_max) / dt + consumed_rate / P), rows/s, not below 0.

    lag_max: records-lag-max, the largest lag of a partition of i in the window, rows; lag_max_before: that of dt =
    elapsed_s before; consumed_rate: records-consumed-rate of i, rows/s; P: its partitions. It assumes
    balanced partitions, and is wrong where they are not.
    """
    estimate = partitions * ((lag_max - lag_max_before) / elapsed_s + consumed_rate / partitions)
    return np.maximum(estimate, 0.0)


def planned_offer(offered: Floats, lag: Floats, drain_s: float) -> Floats:
    """Return offered' = offered + lag / T_drain, rows/s: the rate that drains the backlog in that time.

    lag: rows that wait in the log; T_drain: drain_s. Planning uses it, reported accuracy does not.
    """
    return offered + lag / drain_s
