import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.key_groups import assign, key_groups_at, reassign
from penstock.state.keys.partition import partition


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=300),
    st.integers(1, 9),
    st.integers(9, 300),
)
def test_rows_go_to_the_owner_of_their_key_group_in_order(values, receivers, key_groups):
    hashes = np.array(values, np.uint64)
    owners = reassign(assign(key_groups, receivers), receivers)
    parts = partition(hashes, owners, receivers)
    receiver = owners[key_groups_at((hashes >> np.uint64(32)).astype(np.uint32), key_groups)]
    assert [part.tolist() for part in parts] == [np.flatnonzero(receiver == r).tolist() for r in range(receivers)]


@pytest.mark.parametrize("writeable", [True, False])
def test_receivers_without_rows(writeable):
    hashes = np.full(5, 2**63, np.uint64)
    hashes.flags.writeable = writeable
    parts = partition(hashes, np.array([0, 2], np.int32), 4)
    assert [part.tolist() for part in parts] == [[], [], [0, 1, 2, 3, 4], []]
