"""Levels of managed memory and their split, against the figures of Justin (docs/design/papers/justin-ds2.md 6)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.memory_levels import BASE_BYTES, MAX_LEVEL, MIB, bytes_at, levels_of, managed_bytes, split
from tests.papers_cases import cases


@pytest.mark.parametrize(
    ("managed", "memtable", "cache"),
    [(128, 32, 96), (158, 32, 126), (256, 64, 192), (316, 64, 252), (512, 64, 448), (632, 64, 568), (2048, 64, 1984)],
)
def test_the_split_of_the_paper(managed: int, memtable: int, cache: int) -> None:
    assert [float(part[0]) / MIB for part in split(np.array([managed * MIB], np.float64))] == [memtable, cache]


def test_levels_double() -> None:
    assert [managed_bytes(level) // MIB for level in range(3)] == [158, 316, 632]
    assert managed_bytes(1, 128 * MIB) == 256 * MIB
    with pytest.raises(ValueError, match="begin at 0"):
        managed_bytes(-1)


@settings(max_examples=cases())
@given(st.integers(1, 2**40), st.integers(0, 6), st.floats(0, 0.999))
def test_a_level_is_that_of_the_bytes_that_it_gives(base: int, level: int, more: float) -> None:
    at_base = np.array([float(base)])
    given = bytes_at(level, 0, float(base))
    assert levels_of(np.array([float(given)]), at_base)[0] == level
    assert levels_of(np.array([given * (1 + more)]), at_base)[0] == level
    assert bytes_at(0, level, float(given)) == base
    assert levels_of(np.array([base * more]), at_base)[0] == 0


def test_what_is_not_known_of_levels() -> None:
    nan = float("nan")
    assert levels_of(np.array([nan, 320.0 * MIB, 0.0]), np.full(3, nan)).tolist() == [MAX_LEVEL - 1, 1, 0]
    assert bytes_at(1, 0, nan) == bytes_at(1, 0, 0.0) == 2 * BASE_BYTES and bytes_at(1, 0, nan, MIB) == 2 * MIB


@settings(max_examples=cases())
@given(st.integers(0, 2**44))
def test_the_memtable_is_the_largest_power_of_two_in_a_third(managed: int) -> None:
    memtable, cache = (int(part[0]) for part in split(np.array([float(managed)])))
    assert memtable + cache == managed and cache >= 0
    assert memtable <= min(64 * MIB, managed / 3)
    assert memtable == 64 * MIB or managed < 3 or (memtable & (memtable - 1) == 0 and 2 * memtable > managed / 3)
