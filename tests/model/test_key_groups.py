import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.key_groups import (
    ALLOWANCE,
    UNEVEN,
    WITHOUT_ROWS,
    assign,
    key_groups_at,
    moved,
    reassign,
    reassign_by_load,
)

HIGH = np.uint64(32)


def key_group_of(hashes, key_groups):
    return key_groups_at((hashes >> HIGH).astype(np.uint32), key_groups)


def sizes(table, owners):
    return np.bincount(table, minlength=owners)


def fewest_moves(table, new):
    """The least number of moves to a balanced table: everyone keeps what fits into the best share of quotas."""
    share, larger = divmod(len(table), new)
    held = np.sort(np.bincount(table, minlength=new)[:new])[::-1]
    quotas = np.where(np.arange(new) < larger, share + 1, share)
    return len(table) - int(np.minimum(held, quotas).sum())


def test_key_groups_follow_the_high_bits():
    hashes = np.array([0, 1, 2**57 - 1, 2**57, 2**63, 2**64 - 1], np.uint64)
    assert key_group_of(hashes, 128).tolist() == [0, 0, 0, 1, 64, 127]
    assert key_group_of(hashes, 1).tolist() == [0] * 6
    assert key_group_of(hashes, 3).tolist() == [0, 0, 0, 0, 1, 2]
    assert key_group_of(hashes, 128).dtype == np.int32


@given(st.lists(st.integers(0, 2**64 - 1)), st.integers(1, 40_000))
def test_key_groups_are_in_range_and_ordered(values, key_groups):
    groups = key_group_of(np.array(sorted(values), np.uint64), key_groups)
    assert ((groups >= 0) & (groups < key_groups)).all()
    assert (np.diff(groups) >= 0).all()


def test_the_first_table_is_contiguous_ranges():
    assert assign(7, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert assign(128, 128).tolist() == list(range(128))


def test_three_to_four_moves_a_quarter():
    before = assign(128, 3)
    after = reassign(before, 4)
    assert (before != after).sum() == 32
    assert set(after[before != after].tolist()) == {3}


def test_weights_say_how_much_each_has():
    before = assign(128, 2)
    after = reassign(before, 3, [0.5, 0.5, 1.0])
    assert np.bincount(after).tolist() == [32, 32, 64]
    assert (after != before).sum() == 64
    assert np.bincount(reassign(after, 3, [1.0, 1.0, 1.0])).tolist() == [43, 43, 42]


def test_one_less_moves_only_what_it_had():
    before = assign(120, 4)
    after = reassign(before, 3)
    assert (before != after).sum() == 30
    assert (before[before != after] == 3).all()


@given(
    st.integers(1, 200).flatmap(
        lambda groups: st.tuples(st.just(groups), st.lists(st.integers(1, groups), min_size=2, max_size=6))
    )
)
def test_any_sequence_of_changes_stays_balanced_and_moves_least(case):
    key_groups, counts = case
    table = assign(key_groups, counts[0])
    for new in counts[1:]:
        after = reassign(table, new)
        assert after.dtype == np.int32
        assert not after.flags.writeable
        assert sizes(after, new).max() - sizes(after, new).min() <= 1
        assert (table != after).sum() == fewest_moves(table, new)
        assert reassign(table, new).tolist() == after.tolist()
        table = after
    assert reassign(table, counts[-1]).tolist() == table.tolist()


@pytest.mark.parametrize("owners", [0, 129])
def test_impossible_owners(owners):
    with pytest.raises(ValueError, match=f"shared by {owners} owners"):
        assign(128, owners)
    with pytest.raises(ValueError, match=f"shared by {owners} owners"):
        reassign(assign(128, 2), owners)


def test_a_group_without_owner_is_refused():
    with pytest.raises(ValueError, match="group 2 has no owner"):
        reassign(np.array([0, 1, -1, 0], np.int32), 2)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=200), st.data())
def test_owners_with_any_numbers_become_balanced_ones(owners, data):
    table = np.array(owners, np.int32)
    new = data.draw(st.integers(1, len(table)))
    after = reassign(table, new)
    counts = sizes(after, new)
    assert counts.size == new
    assert counts.max() - counts.min() <= 1
    assert (table != after).sum() == fewest_moves(table, new)
    assert reassign(after, new).tolist() == after.tolist()
    assert table.tolist() == owners


LOADED = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1_000)), min_size=1, max_size=120).filter(
    lambda groups: any(load for _, load in groups)
)


@given(LOADED, st.data())
def test_loads_are_dealt_out_evenly_or_lie_evenly_by_number(groups, data):
    table, load = np.array([owner for owner, _ in groups], np.int32), np.array([float(load) for _, load in groups])
    new = data.draw(st.integers(1, len(table)))
    after, by_number = reassign_by_load(table, new, load), reassign(table, new)
    share, rest = load.sum() / new, WITHOUT_ROWS * load.mean()
    assert (sizes(after, new) > 0).all() and not after.flags.writeable
    assert np.bincount(after, load).max() <= np.bincount(by_number, load).max()
    if after.tolist() == by_number.tolist():
        return
    assert np.bincount(by_number, load).max() > (1 + UNEVEN) * share
    most = (1 + ALLOWANCE) * (1 + WITHOUT_ROWS) * share
    assert np.bincount(after, load).max() <= most + load.max() + rest + 1e-6
    # Whoever has no more than that gives nothing, unless somebody would have no group at all.
    had = np.bincount(table, load + rest, max(new, 10))
    givers = {int(owner) for owner in table[table != after]}
    if (sizes(after, new) > 1).all():
        assert all(owner >= new or had[owner] > most - 1e-6 for owner in givers)
    assert reassign_by_load(table, new, load).tolist() == after.tolist()
    assert table.tolist() == [owner for owner, _ in groups]


@pytest.mark.parametrize(("old", "new"), [(2, 3), (4, 5), (2, 4), (4, 3)])
def test_about_as_many_groups_change_owners_as_by_number(old, new):
    drawn, before = np.random.default_rng(7), assign(128, old)
    for _ in range(20):
        load = drawn.lognormal(0.0, 1.0, 128)
        after, by_number = reassign_by_load(before, new, load), reassign(before, new)
        assert (after != before).sum() <= 1.2 * (by_number != before).sum()
        assert np.bincount(after, load).max() <= (1 + UNEVEN) * -(-128 // new) * load.mean()
        assert sizes(after, new).max() <= 2.0 * 128 / new


@pytest.mark.parametrize(("groups", "old", "new"), [(128, 100, 99), (128, 64, 100), (128, 90, 100), (16, 6, 7)])
def test_few_groups_of_equal_load_are_dealt_out_by_number(groups, old, new):
    before = assign(groups, old)
    assert reassign_by_load(before, new, [3.0] * groups).tolist() == reassign(before, new).tolist()


def test_groups_without_rows_are_shared_out_too():
    """They have state all the same."""
    load = np.zeros(128)
    load[::2] = np.random.default_rng(11).lognormal(0.0, 1.5, 64)
    after = reassign_by_load(assign(128, 2), 4, load)
    assert after.tolist() != reassign(assign(128, 2), 4).tolist()
    idle = np.bincount(after[1::2], minlength=4)
    assert idle.min() >= 8 and idle.max() <= 24


@pytest.mark.parametrize("rows", [20, 5_000])
def test_loads_that_differ_by_chance_are_dealt_out_by_number(rows):
    """Rows of even keys, of which one in 512 was counted, as in large batches."""
    drawn, before = np.random.default_rng(5), assign(128, 4)
    for _ in range(20):
        counted = 512.0 * drawn.poisson(rows, 128)
        assert reassign_by_load(before, 5, counted).tolist() == reassign(before, 5).tolist()


def test_the_heaviest_groups_come_to_different_owners():
    # Eight key groups by Zipf, four of each of two: by number one of the new owners would get 0.43.
    before = np.array([0, 0, 0, 0, 1, 1, 1, 1], np.int32)
    load = [0.05, 0.08, 0.13, 0.30, 0.07, 0.09, 0.10, 0.18]
    after = reassign_by_load(before, 4, load)
    assert np.bincount(after, load).tolist() == pytest.approx([0.26, 0.25, 0.30, 0.19])
    assert np.bincount(reassign(before, 4), load).max() == pytest.approx(0.43)


@pytest.mark.parametrize("loads", [[1.0], [0.0, 0.0], [1.0, -1.0], [1.0, np.inf], [1.0, np.nan]])
def test_loads_that_are_none_are_refused(loads):
    with pytest.raises(ValueError, match="2 key groups have as many loads"):
        reassign_by_load(assign(2, 2), 1, loads)


def test_the_number_that_has_gone_is_taken_over():
    before = np.repeat(np.array([0, 2, 3], np.int32), 4)
    assert reassign(before, 3).tolist() == [0] * 4 + [2] * 4 + [1] * 4


def test_what_moves_has_its_taker_and_the_rest_stays():
    before = assign(8, 2)
    after = moved(before, [(1, 0, 1), (6, 1, 0)])
    assert after.tolist() == [0, 1, 0, 0, 1, 1, 0, 1]
    assert before.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert not after.flags.writeable
    with pytest.raises(ValueError, match="key group 6 is 1's, and cannot be given by 0"):
        moved(before, [(6, 0, 1)])
