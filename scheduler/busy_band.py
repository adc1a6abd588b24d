"""The trigger of Flink's scaler and of Justin: the band in which a task's busy time should stay (Justin, section 4.1).

Read by `ds2` when it runs with a band, and by the policies built on it.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from penstock.model.columns import Bools
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.network_needs import source_lags
from penstock.scheduler.shed_rows import sheds
from penstock.scheduler.true_rates import TaskRates, any_by


@dataclass(frozen=True, slots=True)
class BusyBand:
    """Shares of wall time in [0, 1] that a task is busy or waits for its core.

    Above ``high``, with a producer that waits longer than ``back_pressure`` to send, capacity is short; below ``low``
    it is ample. Where shedders drop more than that share of an application's rows nobody waits, and none need. Nor does
    a source that shares a core with what it waits for: it does not come to read, so that a lag worth more than
    ``lag_s`` seconds of input says the same. With a finite ``lag_s`` a source may be the bottleneck, too: what works
    may be chained to it, and then nobody waits for it but the log.
    """

    low: float = 0.2
    high: float = 0.8
    back_pressure: float = 0.05
    lag_s: float = inf

    def __post_init__(self) -> None:
        if not (0 <= self.low < self.high <= 1 and 0 <= self.back_pressure <= 1):
            raise ValueError(f"a band is 0 <= low < high <= 1, not {self.low} to {self.high}")

    def bottlenecks(self, snapshot: ClusterSnapshot, rates: TaskRates) -> Bools:
        """Return the tasks whose producers wait, or would if nothing were shed, because they are too busy."""
        edges, tasks = snapshot.edges, snapshot.tasks
        waits = rates.output_wait_share[edges.producer] > self.back_pressure
        held_up = any_by(edges.consumer, waits, len(snapshot.tasks))
        lags = source_lags(snapshot)
        may_hold_up = ~tasks.is_source | (self.lag_s < inf)
        if lags is not None:
            behind = any_by(tasks.application, tasks.is_source & (lags > self.lag_s), len(snapshot.applications))
            held_up |= behind[tasks.application] & may_hold_up
        held_up |= sheds(snapshot, self.back_pressure)[tasks.application] & may_hold_up
        return held_up & (rates.busy_share > self.high)

    def unmeasured(self, snapshot: ClusterSnapshot, rates: TaskRates) -> Bools:
        """Return the tasks for which a figure that the band reads was not measured."""
        tasks = snapshot.tasks
        busy, waits = np.isnan(rates.busy_share), np.isnan(rates.output_wait_share)
        return np.asarray((busy & ~tasks.is_source) | (waits & ~tasks.is_sink))

    def left_by(self, snapshot: ClusterSnapshot, rates: TaskRates, grows: Bools, shrinks: Bools) -> Bools:
        """Return the applications that have a bottleneck and something to grow, or an ample task to shrink."""
        of, count = snapshot.tasks.application, len(snapshot.applications)
        short, growing = any_by(of, self.bottlenecks(snapshot, rates), count), any_by(of, grows, count)
        ample = any_by(of, shrinks & (rates.busy_share < self.low), count)
        return (short & growing) | (ample & ~short)
