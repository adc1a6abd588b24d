"""What is stored of a bucket: whatever its logs went through, what comes back is what they held."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.paging.bucket import Bucket, ResidentState
from penstock.engine.paging.bucket_files import KeptBucket
from penstock.engine.paging.bucket_pages import read_bucket
from penstock.engine.paging.bucket_writing import MOST_SEGMENTS, encode_images, write_bucket
from penstock.engine.paging.key_ranges import RING, Span
from penstock.state.checkpoints.manifest import FileEntry
from penstock.state.store import FixedColumn, RowLog, TableSpec
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.stores.page_store import PageStore
from penstock.state.tables.image import StoreImage
from tests.engine.paging.kinds import KINDS
from tests.engine.paging.shelves import Shelves

SCHEMA = pa.schema({"x": pa.int64(), "s": pa.string()})
TABLE = TableSpec("table", (pa.int64(),), {"n": FixedColumn(np.dtype(np.int64))})

Rows = list[tuple[int, str | None]]


class Driven:
    """A bucket with two logs, one of them with positions of its own, and the rows that it should hold."""

    def __init__(self, tabled: bool) -> None:
        self.pages: PageStore = Shelves().open(8 << 20)
        self.bucket = Bucket(Span(0, RING))
        self.tabled = tabled
        self.rows: tuple[Rows, Rows] = ([], [])
        self.hold(StoreImage())

    def hold(self, image: StoreImage) -> None:
        store = MemoryStore("op", None, image)
        self.logs: tuple[RowLog, RowLog] = (
            store.log("one", SCHEMA),
            store.log("two", SCHEMA, lambda rows: rows.column("x").to_numpy().astype(np.uint32)),
        )
        store.table(TableSpec("beside", (pa.int64(),), lasting=False))
        if self.tabled:
            store.table(TABLE)
        self.bucket.held = ResidentState(KINDS["inner join"].make(), store)

    def append(self, log: int, count: int) -> None:
        first = len(self.rows[log])
        rows: Rows = [
            (number, None if number % 3 == 0 else "a" * (number % 5)) for number in range(first, first + count)
        ]
        columns = [list(column) for column in zip(*rows, strict=True)]
        batch = pa.record_batch(columns or [[], []], schema=SCHEMA)
        self.logs[log].append(batch, batch.column("x").to_numpy().astype(np.uint32) if log == 0 else None)
        self.rows[log].extend(rows)

    def remove(self, log: int, every: int) -> None:
        places = np.arange(0, len(self.rows[log]), every)
        self.logs[log].remove(self.logs[log].live()[places])
        for place in places[::-1]:
            del self.rows[log][place]

    def load(self) -> None:
        part = read_bucket(self.pages, 0).part
        self.hold(StoreImage([] if part is None else [part]))

    def check(self) -> None:
        for log, rows in zip(self.logs, self.rows, strict=True):
            taken = log.take(log.live())
            assert list(zip(*(column.to_pylist() for column in taken.columns), strict=True)) == rows
            dumped = pa.Table.from_batches(list(log.dump()))
            assert dumped.column("$position").to_pylist() == [x for x, _ in rows]


def stored(driven: Driven, note: int) -> None:
    written = write_bucket(driven.pages, driven.bucket, {"note": note})
    found = read_bucket(driven.pages, 0)
    assert found.notes == {"note": note} and not driven.bucket.dirty
    assert written == driven.bucket.paged_bytes == sum(driven.bucket.segments)


steps = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 1), st.sampled_from([0, 1, 40, 700])),
    st.tuples(st.just("append"), st.integers(0, 1), st.sampled_from([1, 40])),
    st.tuples(st.just("remove"), st.integers(0, 1), st.sampled_from([1, 2, 7])),
    st.tuples(st.just("store"), st.just(0), st.just(0)),
    st.tuples(st.just("load"), st.just(0), st.just(0)),
)


@given(st.lists(steps, max_size=24), st.booleans())
def test_what_is_stored_comes_back(drawn: list[tuple[str, int, int]], tabled: bool) -> None:
    driven = Driven(tabled)
    for number, (step, log, count) in enumerate([*drawn, ("load", 0, 0)]):
        if step == "append":
            driven.append(log, count)
        elif step == "remove":
            driven.remove(log, count)
        else:
            stored(driven, number)
            if step == "load":
                driven.load()
        driven.check()


def test_rows_that_were_appended_are_stored_behind_the_others() -> None:
    driven = Driven(tabled=False)
    driven.append(0, 50_000)
    stored(driven, 0)
    (first,) = driven.bucket.segments
    for number in range(1, MOST_SEGMENTS):
        driven.append(number % 2, 10)
        stored(driven, number)
        assert driven.bucket.segments[0] == first and len(driven.bucket.segments) == number + 1
        assert driven.bucket.segments[-1] < 4_000
        if number % 4 == 0:
            driven.load()
    stored(driven, 99)
    assert len(driven.bucket.segments) == 1
    driven.load()
    driven.check()


def test_nothing_new_adds_nothing() -> None:
    driven = Driven(tabled=False)
    driven.append(0, 10)
    stored(driven, 0)
    before = driven.bucket.segments
    stored(driven, 1)
    assert driven.bucket.segments == before
    assert read_bucket(driven.pages, 0).notes == {"note": 1}


def test_where_a_table_holds_something_all_is_stored_anew() -> None:
    driven = Driven(tabled=True)
    driven.append(0, 10)
    stored(driven, 0)
    driven.append(0, 10)
    stored(driven, 1)
    assert len(driven.bucket.segments) == 1


def test_images_of_appended_rows_lie_behind_those_that_are_safe() -> None:
    driven = Driven(tabled=False)
    driven.append(0, 5_000)
    first = encode_images(driven.bucket)
    assert [image.name for image in first.images] == ["bucket-0-0"] and not first.is_safe
    driven.append(0, 10)
    anew = encode_images(driven.bucket)
    assert len(anew.images) == 1 and anew.bytes > first.bytes, "the first was never safe"
    bring(anew)
    driven.append(1, 10)
    later = encode_images(driven.bucket)
    assert later.images[0] is anew.images[0] and [image.name for image in later.images][1:] == ["bucket-0-1"]
    assert later.bytes < 4_000
    bring(later)
    driven.remove(0, 7)
    assert len(encode_images(driven.bucket).images) == 1, "rows are gone"


def bring(kept: KeptBucket) -> None:
    """Note that all images are files of a checkpoint."""
    for image in kept.images:
        image.entry = FileEntry(name=image.name, digest="0" * 64, bytes=image.bytes)
    assert kept.is_safe
