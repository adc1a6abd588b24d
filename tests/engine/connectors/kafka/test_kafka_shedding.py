"""The reader of a partition while it sheds: dropped messages are not decoded, and cost their place in the account."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.formats.contract import Decoded, HeadersOf, no_headers
from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.reader import KafkaPosition
from penstock.engine.connectors.kafka.rows import RowMaker
from penstock.model.connectors import Read
from penstock.model.keep_rates import STEPS
from penstock.model.sampling import Drawn
from penstock.shedding.offset_sampling import sample_steps
from tests.engine.connectors.kafka.test_kafka_reader import VALUES, Lines, messages, reader_of


@dataclass
class Sample:
    """A sampler in the test's hands."""

    keep: float = 1.0
    times: int = 0
    branches: Mapping[str, float] = field(default_factory=dict)
    drawn: Drawn | None = None

    def chosen(
        self, offsets: NDArray[np.int64], keys: Sequence[bytes | None] | None = None
    ) -> NDArray[np.bool_] | None:
        return None if self.keep == 1.0 else sample_steps(5, "t/3", offsets) < self.keep * STEPS

    def wants_time(self) -> bool:
        self.times -= 1
        return self.times >= 0


class CountedLines(Lines):
    """Keeps what it was asked to decode."""

    def __init__(self) -> None:
        super().__init__()
        self.decoded: list[bytes] = []

    def decode(self, values: Sequence[bytes], headers: HeadersOf = no_headers) -> Decoded:
        self.decoded += values
        return super().decode(values, headers)


@given(
    st.lists(VALUES, min_size=1, max_size=20),
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(1, 30),
)
def test_every_message_stays_or_is_shed_by_the_log_over_a_restart_anywhere(
    values: list[bytes | None], rates: list[float], rows: int, stop: int
) -> None:
    maker = RowMaker(Lines(), None, {"at": "offset"}, ("id", "at"))
    everything, end = messages(values), 2 * len(values) - 1
    position, number, ended = KafkaPosition(0), 0, False
    seen: list[tuple[int, float]] = []
    dead: list[int | None] = []
    skipped = shed = 0
    log: dict[int, float] = {}
    branches: dict[int, dict[str, float]] = {}
    while not ended:
        start = int(np.searchsorted(everything.offsets, position.offset))
        left = everything.slice(start, len(everything))
        reader = reader_of(maker, [left] if len(left) else [], position, end=end)
        sample = Sample()
        assert reader.sample_by(sample)
        for _ in range(stop):
            sample.keep = rates[number % len(rates)]
            sample.branches = {"a>b": sample.keep / 2} if number % 3 else {}
            number += 1
            read = reader.read(rows)
            seen += [(row["at"], _keep(read)) for row in (read.rows.to_pylist() if read.rows else [])]
            dead += [record.offset for record in read.rejected]
            skipped += read.skipped
            if read.sampled is not None:
                shed += read.sampled.shed
                held = dict(read.sampled.branches)
                assert held in ({}, {"a>b": read.sampled.keep / 2})
                if read.rows is not None:
                    offsets = read.rows.column("at").to_pylist()
                    assert held == {} or (read.sampled.offsets is not None and read.sampled.offsets.tolist() == offsets)
                    for offset in offsets:
                        assert branches.setdefault(offset, held) == held
                covered = range(read.sampled.start, read.sampled.stop)
                assert log.keys().isdisjoint(covered)
                log |= dict.fromkeys(covered, read.sampled.keep)
            ended = read.ended
            if ended:
                break
        position = KafkaPosition(**reader.position())
    assert log.keys() == set(range(end))
    steps = dict(zip(everything.offsets.tolist(), sample_steps(5, "t/3", everything.offsets).tolist(), strict=True))
    kept = [offset for offset in steps if log[offset] == 1.0 or steps[offset] < log[offset] * STEPS]
    counts = {2 * index: _rows(value) for index, value in enumerate(values)}
    assert seen == [(offset, log[offset]) for offset in kept for _ in range(counts[offset] or 0)]
    assert dead == [offset for offset in kept if counts[offset] is None]
    assert skipped == sum(values[offset // 2] is None for offset in kept)
    assert shed == len(values) - len(kept)


def _keep(read: Read) -> float:
    assert read.sampled is not None
    return read.sampled.keep


def _rows(value: bytes | None) -> int | None:
    """Return the rows of a message, None for a dead letter."""
    if value is None:
        return 0
    return len(value.split()) if value.replace(b" ", b"").isdigit() or not value else None


def test_the_time_of_one_that_is_dropped_is_decoded_where_the_value_has_it() -> None:
    values = [b'{"at": "2024-01-01T00:00:%02dZ"}' % second for second in range(60)]
    maker = RowMaker(JsonValues(pa.schema([("at", pa.timestamp("us", "UTC"))])), None, {}, ("at",), time="at")
    reader = reader_of(maker, [messages(values)], KafkaPosition(0), end=119)
    reader.sample_by(Sample(0.0, times=1))
    read = reader.read(100)
    assert read.sampled is not None and read.sampled.dated is not None
    (at,) = read.sampled.dated.column("at").to_pylist()
    assert at.second == 59


def test_what_is_dropped_is_not_decoded_not_even_for_a_time_that_its_metadata_have() -> None:
    lines = CountedLines()
    values = [b"%d" % number for number in range(100)]
    maker = RowMaker(lines, None, {"at": "timestamp"}, ("id", "at"), time="at")
    reader = reader_of(maker, [messages(values)], KafkaPosition(0), end=199)
    reader.sample_by(Sample(0.25, times=1))
    read = reader.read(100)
    assert read.rows is not None and read.sampled is not None
    kept = read.rows.column("id").to_pylist()
    dropped = [number for number in range(100) if number not in kept]
    assert (len(kept), read.sampled.shed) == (100 - len(dropped), len(dropped)) and 10 < len(kept) < 45
    assert lines.decoded == [values[number] for number in kept]
    assert read.sampled.dated is not None and read.sampled.dated.schema.names == ["at"]
    assert read.sampled.dated.column("at").cast("int64").to_pylist() == [2 * dropped[-1]]


def test_a_read_of_which_nothing_stays_moves_the_position_and_is_not_nothing() -> None:
    lines = CountedLines()
    maker = RowMaker(lines, None, {}, ("id",))
    reader = reader_of(maker, [messages([b"1", b"2", b"3"])], KafkaPosition(0), end=9)
    reader.sample_by(Sample(0.0, times=9))
    read = reader.read(100)
    assert read.rows is None and not read.ended and read.sampled is not None
    assert (read.sampled.start, read.sampled.stop, read.sampled.shed) == (0, 5, 3)
    assert reader.position() == {"offset": 5} and lines.decoded == []


def test_without_a_sampler_nothing_is_said_of_samples() -> None:
    maker = RowMaker(Lines(), None, {}, ("id",))
    assert reader_of(maker, [messages([b"1"])], KafkaPosition(0)).read(9).sampled is None
