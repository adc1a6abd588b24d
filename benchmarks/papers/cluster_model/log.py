"""The logs that sources read: partitions of unequal shares, and lag as a Kafka client reports it.

Called by the simulated cluster at every step (docs/design/papers/stream-economics.md 7).
"""

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.cluster_model.spec import ClusterSpec
from penstock.benchmarks.papers.cluster_model.tallies import tally
from penstock.model.columns import Floats

Indices = NDArray[np.int64]


class Log:
    """Partitions of all sources. ``task`` and ``number`` by partition; offsets grow from 0."""

    def __init__(self, spec: ClusterSpec) -> None:
        """Start empty."""
        tasks = {task.name: index for index, task in enumerate(spec.tasks)}
        self._sources = [(source, tasks[source.task]) for source in spec.sources]
        counts = [len(source.partition_shares) for source in spec.sources]
        self.source = np.repeat(np.arange(len(counts)), counts)
        self.task = np.array([task for _, task in self._sources], np.int64)[self.source]
        self.number = np.concatenate([np.arange(count) for count in counts])
        shares = [np.array(source.partition_shares) / sum(source.partition_shares) for source in spec.sources]
        self.share = np.concatenate(shares)
        self.end_offset = np.zeros(len(self.share))
        self.position = np.zeros(len(self.share))
        self.fetched = np.zeros(len(self.share))
        self.saved = np.zeros(len(self.share))
        self._random = np.array([source.is_random for source in spec.sources])[self.source]
        self._lag_window_s = spec.reports.lag_window_s
        self._window = 0
        self._largest = np.zeros((2, len(self.share)))
        self.lag_sum = np.zeros(len(self.share))

    def rates(self, time_s: float) -> Floats:
        """Return the rows a second that come into each partition."""
        rates = np.array([source.rate(time_s) for source, _ in self._sources])
        return rates[self.source] * self.share

    def append(self, rates: Floats, dt: float, is_open: NDArray[np.bool_], arrivals: np.random.Generator) -> None:
        """Let rows come in for ``dt`` seconds, into partitions whose application has started."""
        rows = np.where(is_open, rates * dt, 0.0)
        if self._random.any():
            rows = np.where(self._random, arrivals.poisson(rows), rows)
        self.end_offset += rows

    @property
    def lag(self) -> Floats:
        """Rows of each partition that were not read."""
        return self.end_offset - self.position

    def readers(self, parallelism: Indices, first: Indices) -> Indices:
        """Return the instance that reads each partition: the n-th of p instances reads n, n + p, n + 2p ..."""
        return np.asarray(first[self.task] + self.number % parallelism[self.task], np.int64)

    def read(self, taken: Floats, reader: Indices) -> None:
        """Let instances have read rows, of their partitions in proportion to what waits in each."""
        lag = self.lag
        total = tally(reader, lag, len(taken))
        part = np.divide(taken, total, out=np.zeros(len(taken)), where=total > 0)
        rows = lag * part[reader]
        self.position += rows
        self.fetched += rows

    def save(self, task: NDArray[np.bool_]) -> None:
        """Remember the positions of these tasks: a checkpoint is complete."""
        self.saved = np.where(task[self.task], self.position, self.saved)

    def rewind(self, task: NDArray[np.bool_]) -> None:
        """Go back to the positions that were saved last."""
        self.position = np.where(task[self.task], self.saved, self.position)

    def sample_lag(self, time_s: float) -> None:
        """Keep the maxima of this window and of the one before, as a client does."""
        window = int(time_s // self._lag_window_s)
        if window != self._window:
            self._largest[1] = self._largest[0] if window == self._window + 1 else 0.0
            self._largest[0] = 0.0
            self._window = window
        np.maximum(self._largest[0], self.lag, out=self._largest[0])

    def report_lag(self) -> None:
        """Add the maxima to the sum whose mean over its reports is what a reporter shows."""
        self.lag_sum += self._largest.max(axis=0)
