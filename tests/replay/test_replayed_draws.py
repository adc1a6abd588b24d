"""A replay draws the steps of strata again, and keeps what a reader kept, over restarts and slices anywhere."""

import itertools
import json
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.reader import KafkaPosition
from penstock.engine.connectors.kafka.rows import RowMaker
from penstock.engine.dataflow.partition_sample import PartitionSample
from penstock.model.strata import Strata
from penstock.replay.kafka_slices import OffsetRange, RowPosition, Slice, cut_at, offset_range
from penstock.replay.kept_log import KeptLog, stretches_of
from penstock.replay.row_sampling import STEP, SampledRowMaker, sampled_maker, sampling_of
from penstock.shedding.kept_log import PartitionLog, Stretch, encode_stretch
from tests.engine.connectors.kafka.test_kafka_reader import VALUES, Lines, messages, reader_of
from tests.engine.support import ManualClock

SEED = 5
MAKER = RowMaker(Lines(), None, {"at": "offset"}, ("id", "at"))
RATES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
MESSAGE = st.tuples(VALUES, st.sampled_from([None, b"a", b"b"]))
STRATA = st.sampled_from(["partition", "key"])

Row = tuple[int, int, int]
"""Offset, value, and the step that its record drew, -1 if it drew none."""


@given(
    st.lists(MESSAGE, min_size=1, max_size=40),
    st.lists(st.tuples(RATES, st.booleans()), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(1, 12),
    STRATA,
    st.lists(st.integers(0, 80), max_size=2),
)
def test_a_replay_keeps_what_a_reader_kept(
    given_messages: list[tuple[bytes | None, bytes | None]],
    rates: list[tuple[float, bool]],
    rows: int,
    stop: int,
    strata: Strata,
    edges: list[int],
) -> None:
    values, keys = [value for value, _ in given_messages], [key for _, key in given_messages]
    everything = messages(values, keys=None if set(keys) == {None} else keys)
    seen, log = _read(everything, rates, rows, stop, strata)
    end = 2 * len(values) - 1
    cuts = sorted({0, end, *(edge for edge in edges if edge < end)})
    ranges = [offset_range("t", 3, low, high) for low, high in itertools.pairwise(cuts)]
    assert _replayed(everything, log, ranges) == seen
    # A range may begin and end behind some rows of a message.
    middle = RowPosition(cuts[-1] // 4 * 2, 1)
    halves = [
        OffsetRange("t", 3, RowPosition(0), middle),
        OffsetRange("t", 3, middle, RowPosition(end)),
    ]
    assert _replayed(everything, log, halves) == seen


def _read(
    everything: Messages, rates: Sequence[tuple[float, bool]], rows: int, stop: int, strata: Strata
) -> tuple[list[Row], KeptLog]:
    """Return the rows that readers gave, one after the other, each for some reads, and the log of that."""
    position, number, ended = KafkaPosition(0), 0, False
    seen: list[Row] = []
    stretches: list[Stretch] = []
    while not ended:
        start = int(np.searchsorted(everything.offsets, position.offset))
        left = everything.slice(start, len(everything))
        reader = reader_of(MAKER, [left] if len(left) else [], position, end=2 * len(everything) - 1)
        sample = PartitionSample(SEED, "t/3", PartitionLog("in", 3, "t", strata), ManualClock(), strata)
        reader.sample_by(sample)
        for _ in range(stop):
            sample.keep, parts = rates[number % len(rates)]
            sample.branches = {"a>b": sample.keep / 2} if parts and sample.keep else {}
            number += 1
            read = reader.read(rows)
            sampled = read.sampled
            if sampled is not None:
                since = None if sampled.drawn is None else sampled.drawn.since
                sample.log.add(sampled.start, sampled.stop, sampled.keep, sampled.branches, since=since)
                drawn = None if sampled.drawn is None else sampled.drawn.steps.tolist()
                for at, row in enumerate(read.rows.to_pylist() if read.rows is not None else []):
                    seen.append((row["at"], row["id"], -1 if drawn is None else drawn[at]))
            ended = read.ended
            if ended:
                break
        position = KafkaPosition(**reader.position())
        stretches += sample.log.take()
    lines = [(number, json.loads(encode_stretch(item))) for number, item in enumerate(stretches)]
    return seen, KeptLog("log", "job", SEED, stretches_of(lines))


def _replayed(everything: Messages, log: KeptLog, ranges: Sequence[OffsetRange]) -> list[Row]:
    """Return the rows of a replay, range by range, each cut into slices as Spark reads them."""
    sampling = sampling_of(log, "in", leaves_out=True)
    leads = sampling.leads(("t", 3))
    dealt = {
        offset
        for parts in log.stretches.values()
        for part in parts
        if part.dealing is not None
        for offset in range(part.start, part.stop)
    }
    found: list[Row] = []
    for piece in [piece for item in ranges for piece in cut_at(item, leads)]:
        maker = sampled_maker(MAKER, sampling)
        assert isinstance(maker, SampledRowMaker)
        maker = maker.begun()
        if piece.lead is not None and piece.lead < piece.start:
            assert not _rows(maker.looking_only(), everything, Slice("t", 3, piece.lead, piece.start))
        for row in _rows(maker, everything, piece):
            found.append((row["at"], row["id"], row[STEP] if row["at"] in dealt else -1))
    return found


def _rows(maker: RowMaker, everything: Messages, piece: Slice) -> list[dict[str, int]]:
    low, high = np.searchsorted(everything.offsets, [piece.start, piece.stop]).tolist()
    part = everything.slice(low, high)
    if not len(part):
        return []
    reader = reader_of(maker, [part], KafkaPosition(piece.start, piece.skip), end=int(part.offsets[-1]) + 1)
    rows: list[dict[str, int]] = []
    ended = False
    while not ended:
        read = reader.read(3)
        rows += read.rows.to_pylist() if read.rows is not None else []
        ended = read.ended
    return rows if piece.most is None else rows[: piece.most]
