"""The shedder of one partition of a source: which of its records stay, and the log of that."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.strata_draws import StrataDraws, strata_of_keys
from penstock.model.connectors import Source
from penstock.model.keep_rates import steps_of
from penstock.model.sampling import Drawn, Sampled, Sampler
from penstock.model.strata import Strata
from penstock.shedding.kept_log import PartitionLog
from penstock.shedding.offset_sampling import Steps, sample_steps

TIME_NS = 100_000_000
"""How long at least between two dropped records that are decoded for their event times."""


class PartitionSample:
    """A `Sampler` that a source head sets the rate of."""

    def __init__(self, seed: int, name: str, log: PartitionLog, clock: Clock, strata: Strata | None = None) -> None:
        """Keep everything; ``name`` is that of the partition, ``strata`` are those by which its records draw steps."""
        self.keep = 1.0
        self.branches: Mapping[str, float] = {}
        self.drawn: Drawn | None = None
        self._strata = strata
        self._draws: StrataDraws | None = None
        self.log = log
        self._seed, self._name, self._clock = seed, name, clock
        self._time_due_ns = clock.monotonic_ns()

    def chosen(
        self, offsets: NDArray[np.int64], keys: Sequence[bytes | None] | None = None
    ) -> NDArray[np.bool_] | None:
        """Return which of these records stay, None: all. Records draw steps where a rate lies between 0 and 1."""
        is_drawn = self._strata is not None and len(offsets) > 0 and (self.branches or 0.0 < self.keep < 1.0)
        self.drawn = self._draw(offsets, keys) if is_drawn else None
        if self.keep >= 1.0:
            return None
        if self.keep <= 0.0:
            return np.zeros(len(offsets), np.bool_)
        steps = self.steps(offsets) if self.drawn is None else self.drawn.steps
        return steps < steps_of(self.keep)

    def keeps_all(self) -> bool:
        """Return whether all records stay, and go on at all branches, so that they draw no steps."""
        return self.keep >= 1.0 and not self.branches

    def _draw(self, offsets: NDArray[np.int64], keys: Sequence[bytes | None] | None) -> Drawn:
        first = int(offsets[0])
        if self._draws is None or self._draws.is_over(first):
            self._draws = StrataDraws(self._seed, self._name, first)
        strata = strata_of_keys(keys, len(offsets)) if self._strata == "key" else None
        return Drawn(self._draws.draw(offsets, strata), self._draws.since)

    def steps(self, offsets: NDArray[np.int64]) -> Steps:
        """Return the steps of these records, where they follow from offsets."""
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


def partition_log(source_name: str, source: Source, partition: str, strata: Strata | None = None) -> PartitionLog:
    """Return the log of a partition."""
    place = source.topic_partition(partition)
    number, topic = (partition, None) if place is None else (place[1], place[0])
    return PartitionLog(source_name, number, topic, strata)


def rates_of(
    sample: PartitionSample | None, sampled: Sampled | None, branches: Sequence[str], keys: Sequence[str]
) -> tuple[float, bytes, bytes]:
    """Return the keep rate of the rows of a read, and the steps that go on at branches and samplers of keys.

    ``sampled`` is what the reader has dropped, None: nothing. No steps are said where none of these sheds further.
    """
    held = sample if sampled is None else sampled
    if held is None:
        return 1.0, b"", b""
    if sample is None or not held.branches:
        return held.keep, b"", b""
    return held.keep, _steps_of(held, branches), _steps_of(held, keys)


def _steps_of(held: Sampler | Sampled, names: Sequence[str]) -> bytes:
    """Return the steps that go on where rates have these names; nothing if none has one of its own."""
    if not any(name in held.branches for name in names):
        return b""
    return bytes(steps_of(held.branches.get(name, held.keep)) for name in names)
