"""What one task manager gives another comes out as it was, whatever tables and logs hold."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.dataflow.handovers import Handover
from penstock.engine.executors.managers.handover_parcel import HandoverReader, pack_handover
from penstock.engine.paging.bucket_handover import GivenBucket
from penstock.engine.paging.key_ranges import Span
from penstock.model.errors import BugError
from penstock.state.tables.image import StoreDump
from tests.engine.transport.test_batch_body import batches


def contents_of(handover: Handover) -> Sequence[pa.Buffer]:
    """Return what comes over a link of what is sent."""
    contents = []
    for body, size in pack_handover(handover):
        memory = np.empty(body.size, np.uint8)
        assert body.write(memory) == body.size
        contents.append(pa.py_buffer(memory).slice(0, size))
    return contents


@st.composite
def dumps(draw: st.DrawFn) -> StoreDump:
    """Draw a dump, whose batches have a schema with words of its own."""
    found = {}
    for number in range(draw(st.integers(0, 3))):
        rows = draw(batches())
        rows = rows.replace_schema_metadata({"of": f"table {number}"})
        first = draw(st.integers(0, rows.num_rows))
        found[f"table {number}"] = [rows.slice(0, first), rows.slice(first)]
    return StoreDump(found)


@st.composite
def handovers(draw: st.DrawFn) -> Handover:
    """Draw one of several operators and buckets."""
    buckets = {}
    for name in draw(st.lists(st.sampled_from(["counts", "joined"]), unique=True)):
        given_ = []
        for low in range(draw(st.integers(0, 3))):
            parts = tuple(draw(st.lists(dumps(), max_size=2)))
            notes = tuple({"watermark_us": low + place, "mark": None} for place in range(len(parts)))
            given_.append(GivenBucket(Span(low * 10, low * 10 + 10), parts, notes))
        buckets[name] = given_
    return Handover(draw(st.integers(1, 99)), "counts", 0, draw(st.integers(1, 3)), buckets)


@given(st.lists(handovers(), max_size=3))
def test_handovers_come_out_one_after_the_other(given_: list[Handover]) -> None:
    reader, came = HandoverReader(), []
    for handover in given_:
        for content in contents_of(handover):
            found = reader.take(content)
            if found is not None:
                came.append(found)
    assert [said(item) for item in came] == [said(item) for item in given_]
    for one, other in zip(came, given_, strict=True):
        for name in other.buckets:
            for bucket, was in zip(one.buckets[name], other.buckets[name], strict=True):
                for part, before in zip(bucket.parts, was.parts, strict=True):
                    assert part.batches.keys() == before.batches.keys()
                    for table in before.batches:
                        pairs = list(zip(part.batches[table], before.batches[table], strict=True))
                        assert all(rows.equals(of) for rows, of in pairs)
                        assert all(rows.schema.equals(of.schema, check_metadata=True) for rows, of in pairs)


def test_batches_of_a_table_have_its_types() -> None:
    mixed = [pa.record_batch({"x": pa.array([1], kind)}) for kind in (pa.int64(), pa.float64())]
    given_ = GivenBucket(Span(0, 10), (StoreDump({"sums": mixed}),), ({},))
    with pytest.raises(BugError, match="table 'sums' of a dump differ"):
        contents_of(Handover(1, "counts", 0, 1, {"counts": [given_]}))


def test_what_are_no_words_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        HandoverReader().take(pa.py_buffer(b"no words"))


def said(handover: Handover) -> object:
    """Return what a handover says of itself, without rows."""
    buckets = {
        name: [(item.span, len(item.parts), item.notes) for item in given_] for name, given_ in handover.buckets.items()
    }
    return handover.move, handover.task, handover.giver, handover.taker, buckets
