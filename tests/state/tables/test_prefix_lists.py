from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state.tables.budget import Account, Budget
from penstock.state.tables.prefix_lists import PrefixLists


def lists(ordered=True, slots=20_000):
    made = PrefixLists(Account(Budget("op", None)), ordered)
    made.grow(slots)
    return made


def integers(*values):
    return np.array(values, np.int64)


steps = st.lists(st.tuples(st.booleans(), st.integers(-40, 40), st.integers(1, 60), st.integers(1, 9)), max_size=30)


@settings(deadline=None)
@given(steps)
def test_lists_are_a_sorted_dictionary(script):
    made = lists()
    model = defaultdict(list)
    free = list(range(5_000, -1, -1))
    for adding, start, count, stride in script:
        prefixes = [start + stride * i for i in range(count)]
        if adding:
            slots = [free.pop() for _ in prefixes]
            made.add(integers(*slots), integers(*prefixes))
            for slot, prefix in zip(slots, prefixes, strict=True):
                model[prefix].append(slot)
        else:
            gone = [(slot, prefix) for prefix in prefixes for slot in model.pop(prefix, [])[::-1]]
            made.remove(integers(*(s for s, _ in gone)), integers(*(p for _, p in gone)))
            free += [slot for slot, _ in gone]
        live = sorted(prefix for prefix in model if model[prefix])
        assert made.first() == (live[0] if live else None)
        below = [slot for prefix in live if prefix < start for slot in model[prefix]]
        assert made.below(start).tolist() == below
        between = [slot for p in live if start <= p < start + 50 for slot in model[p]]
        assert made.between(start, start + 50).tolist() == between
        counts, slots = made.of(integers(*prefixes))
        assert counts.tolist() == [len(model.get(prefix, [])) for prefix in prefixes]
        assert slots.tolist() == [slot for prefix in prefixes for slot in model.get(prefix, [])]


def test_slots_leave_from_anywhere():
    made = lists()
    made.add(integers(0, 1, 2, 3, 4), integers(7, 7, 8, 7, 7))
    made.remove(integers(3), integers(7))
    assert made.of(integers(7))[1].tolist() == [0, 1, 4]
    made.remove(integers(0), integers(7))
    assert made.of(integers(7))[1].tolist() == [1, 4]
    made.add(integers(0), integers(7))
    made.remove(integers(4, 2), integers(7, 8))
    assert made.below(100).tolist() == [1, 0]


def test_a_sliding_range_of_prefixes_keeps_its_memory():
    account = Account(Budget("op", None))
    made = PrefixLists(account, ordered=True)
    made.grow(1_000)
    held = []
    for step in range(2_000):
        slots = np.arange(10) + step % 100 * 10
        if step >= 100:
            gone = made.below(10 * (step - 99))
            assert len(gone) == 10
            made.remove(gone, np.arange(10) + 10 * (step - 100))
        made.add(slots, np.arange(10) + 10 * step)
        held.append(account.used_bytes)
    assert max(held[200:]) == max(held[:200])


def test_unordered_lists_need_no_heap():
    made = lists(ordered=False)
    made.add(np.arange(5_000), np.arange(5_000) // 2)
    counts, slots = made.of(integers(3, 9_999, 4))
    assert counts.tolist() == [2, 0, 2]
    assert slots.tolist() == [6, 7, 8, 9]
