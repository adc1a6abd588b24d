"""Steps that strata deal out: alone a record has any of 64, and of 64 records in a row each has another one."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.dataflow.strata_draws import MOST_OFFSETS, StrataDraws, strata_of_keys
from penstock.model.keep_rates import STEPS
from penstock.shedding.offset_sampling import random_words, sample_steps

KEYS = st.lists(st.sampled_from([None, b"", b"a", b"b", b"c" * 40]), min_size=1, max_size=300)


@given(KEYS, st.lists(st.integers(1, 60)), st.integers(0, 3))
def test_every_64_records_of_a_key_have_all_steps_however_they_come(
    keys: list[bytes | None], cuts: list[int], seed: int
) -> None:
    offsets = np.cumsum(np.arange(len(keys)) % 3 + 1)
    draws, steps, at = StrataDraws(seed, "t/0", 0), list[int](), 0
    for size in [*cuts, len(keys)]:
        part = slice(at, at + size)
        given_keys = keys[part]
        if not given_keys:
            break
        named = None if set(given_keys) == {None} else given_keys
        steps += draws.draw(offsets[part], strata_of_keys(named, len(given_keys))).tolist()
        at += size
    assert steps == _by_definition(seed, offsets.tolist(), keys)


def _by_definition(seed: int, offsets: list[int], keys: list[bytes | None]) -> list[int]:
    """Return the steps, each drawn by the record's own random number from those that its key has left."""
    left: dict[bytes | None, list[int]] = defaultdict(list)
    steps = []
    for key, word in zip(keys, random_words(seed, "t/0", np.array(offsets)).tolist(), strict=True):
        left[key] = left[key] or list(range(STEPS))
        steps.append(left[key].pop((word >> 32) * len(left[key]) >> 32))
    return steps


def test_thousands_of_keys_grow_the_table() -> None:
    count = 40_000
    keys = (np.arange(count) % 7_000 + 1).astype(np.uint64)
    steps = StrataDraws(1, "t/0", 0).draw(np.arange(count), keys)
    for key in (1, 2, 6_999):
        assert len(set(steps[keys == key].tolist())) == (keys == key).sum()


def test_a_first_record_draws_what_it_has_without_strata_and_all_draw_evenly() -> None:
    offsets = np.arange(200_000)
    alone = StrataDraws(3, "t/0", 0).draw(offsets, (offsets + 1).astype(np.uint64))
    assert np.array_equal(alone, sample_steps(3, "t/0", offsets))
    # Whatever its place in a pack, a record has each step with the same chance, and pairs have nothing in common.
    packs = StrataDraws(4, "t/0", 0).draw(offsets, None)[: 3_125 * STEPS].reshape(-1, STEPS)
    for place in (0, 1, 31, 62, 63):
        counts = np.bincount(packs[:, place], minlength=STEPS)
        assert ((counts - 3_125 / STEPS) ** 2 / (3_125 / STEPS)).sum() < 120.0
    pairs = np.corrcoef(packs[:, 10].astype(float), packs[:, 11].astype(float))[0, 1]
    assert pairs == pytest.approx(-1 / 63, abs=0.06)


def test_dealing_begins_anew_where_a_replay_could_not_go_back_any_further() -> None:
    draws = StrataDraws(1, "t/0", 5)
    assert not draws.is_over(5 + MOST_OFFSETS - 1)
    assert draws.is_over(5 + MOST_OFFSETS)
