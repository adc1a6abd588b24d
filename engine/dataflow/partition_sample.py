"""The shedder of one partition of a source: which of its records stay, and the log of that."""

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from penstock.engine.core.contract import Clock
from penstock.model.connectors import Source
from penstock.model.keep_rates import steps_of
from penstock.shedding.kept_log import PartitionLog
from penstock.shedding.offset_sampling import Steps, sample_steps

TIME_NS = 100_000_000
"""How long at least between two dropped records that are decoded for their event times."""


class PartitionSample:
    """A `Sampler` that a source head sets the rate of."""

    def __init__(self, seed: int, name: str, log: PartitionLog, clock: Clock) -> None:
        """Keep everything; ``name`` is that of the partition."""
        self.keep = 1.0
        self.branches: Mapping[str, float] = {}
        self.log = log
        self._seed, self._name, self._clock = seed, name, clock
        self._time_due_ns = clock.monotonic_ns()

    def chosen(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return which of these records stay, None: all."""
        if self.keep >= 1.0:
            return None
        if self.keep <= 0.0:
            return np.zeros(len(offsets), np.bool_)
        return self.steps(offsets) < steps_of(self.keep)

    def steps(self, offsets: NDArray[np.int64]) -> Steps:
        """Return the steps of these records."""
        return sample_steps(self._seed, self._name, offsets)

    def wants_time(self) -> bool:
        """Return whether the last time of a dropped record is 100 ms old; from then on it is not."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._time_due_ns:
            return False
        self._time_due_ns = now_ns + TIME_NS
        return True


def sampling_seed(job: str, seed: int) -> int:
    """Return the seed of a job's samples, below 2^48: the same in every run of a job of this name and option."""
    return int.from_bytes(hashlib.blake2b(f"{job}/{seed}".encode(), digest_size=6).digest(), "little")


def partition_log(source_name: str, source: Source, partition: str) -> PartitionLog:
    """Return the log of a partition."""
    place = source.topic_partition(partition)
    return PartitionLog(source_name, partition) if place is None else PartitionLog(source_name, place[1], place[0])
