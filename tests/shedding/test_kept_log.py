"""The log of what was kept: merged, in order, and read back."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.kept_log import PartitionLog, Stretch, decode_kept_log, encode_kept_log, merged
from tests.papers_cases import cases

READS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from([0.25, 0.5, 1.0])), max_size=30)
"""Offsets without a record before a read, records of it, and its keep rate."""


@settings(max_examples=cases())
@given(READS, st.sets(st.integers(0, 30)))
def test_a_log_covers_every_offset_once_and_holds_a_stretch_for_each_change(
    reads: list[tuple[int, int, float]], takes: set[int]
) -> None:
    log, taken, offset, held = PartitionLog("in", 3, "t"), list[Stretch](), 0, dict[int, float]()
    for number, (gap, records, keep) in enumerate(reads):
        start = offset + gap
        offset = start + records
        log.add(start, offset, keep, {})
        held |= dict.fromkeys(range(start, offset), keep)
        if number in takes:
            taken += log.take()
    stretches = merged([*reversed(taken), *log.take()])
    assert {o: item.keep for item in stretches for o in range(item.start, item.stop) if o in held} == held
    assert all(one.stop == two.start and one.keep != two.keep for one, two in pairwise(stretches))
    assert {(item.source, item.topic, item.partition) for item in stretches} <= {("in", "t", 3)}


def test_a_log_is_read_back_as_it_was_written() -> None:
    stretches = [Stretch("in", None, "a/0", 0, 5, 0.5, {"in>out": 0.25}), Stretch("in", "t", 3, 5, 7, 1.0)]
    data = encode_kept_log("job", 7, stretches)
    assert data.splitlines()[0] == b'{"version":2,"job":"job","seed":7}'
    assert data.splitlines()[2] == (
        b'{"source":"in","topic":"t","partition":3,"from":5,"to":7,"keep":1.0,"branches":{}}'
    )
    assert decode_kept_log(data) == ("job", 7, stretches)
    for broken in (b"", b"{}", data[:40], data.replace(b"2", b"1", 1)):
        with pytest.raises(ValueError, match="no log of what was kept"):
            decode_kept_log(broken)
