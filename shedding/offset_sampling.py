"""The sample of a source: which records stay at which keep rate is a function of their offsets alone.

A record has u = hash(seed, partition, offset) in [0, 1) and stays while u < keep: replays, restarts and batch jobs make
the same choice, and what stays at one rate stays at every greater one.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from penstock.model.keep_rates import STEPS

Steps = NDArray[np.uint8]
"""u in steps of 1 / `STEPS`, rounded down: a record stays at keep rate k / `STEPS` if its step is below k."""


def sample_steps(seed: int, partition: str, offsets: NDArray[np.int64]) -> Steps:
    """Return the step of each record of a partition, in [0, `STEPS`); ``offsets`` are 0 or more.

    ``partition`` is ``topic/number`` of Kafka, else the partition's name. Steps of different records, partitions and
    seeds are independent draws, all equally likely.
    """
    return (random_words(seed, partition, offsets) >> np.uint64(64 - (STEPS - 1).bit_length())).astype(np.uint8)


def random_words(seed: int, partition: str, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 64 random bits of each record, of which `sample_steps` takes the first."""
    name = hashlib.blake2b(f"{seed}/{partition}".encode(), digest_size=8).digest()
    # splitmix64: increments by the golden ratio, then two rounds of multiply and shift.
    mixed = offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(int.from_bytes(name, "little"))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
