"""Stack distances and what is told from a sample of them, beside an LRU cache that is really run."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from penstock.scheduler.stack_distances import (
    BOUNDS,
    FIRST,
    AccessSample,
    ReuseHistogram,
    bucket_of,
    buckets_within,
    is_sampled,
    stack_distances,
)
from tests.papers_cases import cases

TRACES = st.integers(0, 60).flatmap(lambda n: arrays(np.uint64, n, elements=st.integers(0, 12)))


def lru_hits(keys: np.ndarray, sizes: np.ndarray, cache_bytes: float) -> int:
    """Return the hits of an LRU cache that is run; an entry's size is that of its key."""
    held: OrderedDict[int, float] = OrderedDict()
    hits = 0
    for key, size in zip(keys.tolist(), sizes.tolist(), strict=True):
        hits += key in held
        held[key] = size
        held.move_to_end(key)
        while sum(held.values()) > cache_bytes:
            held.popitem(last=False)
    return hits


def key_sizes(keys: np.ndarray) -> np.ndarray:
    return (100 + (keys * np.uint64(37)) % np.uint64(50)).astype(np.float64)


@settings(max_examples=cases())
@given(TRACES, st.floats(0, 2000))
def test_an_access_hits_if_its_distance_fits(keys: np.ndarray, cache_bytes: float) -> None:
    sizes = key_sizes(keys)
    with np.errstate(invalid="ignore"):
        assert int((stack_distances(keys, sizes) <= cache_bytes).sum()) == lru_hits(keys, sizes, cache_bytes)


@settings(max_examples=cases())
@given(TRACES, st.lists(st.integers(0, 60), max_size=3), st.floats(0, 2000))
def test_a_trace_in_parts_is_the_whole_trace(keys: np.ndarray, cuts: list[int], cache_bytes: float) -> None:
    whole = AccessSample(rate=1.0).after(keys, key_sizes(keys))
    parts = AccessSample(rate=1.0)
    for part in np.split(keys, sorted(cuts)):
        parts = parts.after(part, key_sizes(part))
    assert np.array_equal(whole.histogram.accesses, parts.histogram.accesses)
    assert np.array_equal(whole.keys, parts.keys)


@settings(max_examples=cases())
@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 2.0**50)), st.floats(0, 2.0**50))
def test_a_bucket_fits_only_if_all_it_holds_does(distances: np.ndarray, cache_bytes: float) -> None:
    fits = bucket_of(distances) < buckets_within(np.array([cache_bytes]))[0]
    assert (distances[fits] <= cache_bytes * (1 + 1e-6)).all()
    finer = 2.0 ** (-1 / 4)
    assert (fits | (distances > cache_bytes * finer * (1 - 1e-6)) | (distances > BOUNDS[-1])).all() or cache_bytes < 2


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_more_memory_never_hits_less_and_histograms_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, two = (ReuseHistogram(rng.integers(0, 5, FIRST + 1).astype(float)) for _ in range(2))
    sizes = np.sort(2.0 ** rng.uniform(-1, 49, 20))
    both = one.merged(two)
    assert (np.diff(both.hit_rate(sizes)) >= 0).all() and (both.hit_rate(sizes) <= 1).all()
    totals = one.accesses.sum(), two.accesses.sum()
    mixed = (totals[0] * one.hit_rate(sizes) + totals[1] * two.hit_rate(sizes)) / sum(totals)
    assert np.allclose(both.hit_rate(sizes), mixed)


def zipf_trace(rng: np.random.Generator, exponent: float, keys: int, accesses: int) -> np.ndarray:
    weights = 1 / np.arange(1, keys + 1) ** exponent
    drawn = rng.choice(keys, accesses, p=weights / weights.sum()).astype(np.uint64)
    return drawn * np.uint64(0x9E3779B97F4A7C15)


@pytest.mark.parametrize(("exponent", "mean_most"), [(0.0, 0.03), (0.6, 0.025), (0.9, 0.015), (1.2, 0.01)])
def test_a_tenth_of_the_keys_tells_the_curve(exponent: float, mean_most: float) -> None:
    """Against the whole trace, at 30 sizes, four times: within 8 points everywhere."""
    errors = []
    for seed in range(4):
        trace = zipf_trace(np.random.default_rng(seed), exponent, 20_000, 50_000) + np.uint64(seed)
        sizes = np.full(len(trace), 1000.0)
        exact = AccessSample(rate=1.0, keys_most=1 << 20).after(trace, sizes)
        sampled = AccessSample(rate=0.1).after(trace, sizes)
        memory = np.linspace(0.02, 1.2, 30) * 20e6
        errors.append(np.abs(exact.histogram.hit_rate(memory) - sampled.histogram.hit_rate(memory)))
    assert np.max(errors) < 0.08 and np.mean(errors) < mean_most


def test_what_is_remembered_is_bounded() -> None:
    trace = np.arange(1000, dtype=np.uint64)
    sample = AccessSample(rate=1.0, keys_most=100).after(np.tile(trace, 2), np.ones(2000))
    assert len(sample.keys) == 100
    after = sample.next_window().after(trace[-100:], np.ones(100)).histogram
    assert after.hit_rate(np.array([128.0])) == 1.0
    assert sample.next_window().after(trace[:900], np.ones(900)).histogram.hit_rate(np.array([1e9])) == 0.0


def test_the_sample_is_the_same_on_every_machine() -> None:
    hashes = np.arange(20, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert np.flatnonzero(is_sampled(hashes, 0.3)).tolist() == [0, 3, 5, 7, 9, 19]
    many = np.arange(100_000, dtype=np.uint64)
    assert is_sampled(many, 0.01).mean() == pytest.approx(0.01, rel=0.1)


def test_rows_for_a_snapshot_say_first_accesses_as_not_measured() -> None:
    sample = AccessSample(rate=1.0).after(np.array([1, 1, 2], np.uint64), np.full(3, 8.0))
    distances, accesses = sample.histogram.rows()
    assert distances[0] == 8.0 and np.isnan(distances[1]) and accesses.tolist() == [1.0, 2.0]


def test_a_rate_is_a_part() -> None:
    with pytest.raises(ValueError, match="rate"):
        AccessSample(rate=0.0)
