"""Rows with steps and rates of a log: a batch over them has what a stream kept, and a log of another seed does not."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.rows import DecodedMessages, RowMaker
from penstock.replay.kept_log import ALL_KEPT, KeptLog, Stretch, StretchRates
from penstock.replay.row_sampling import RATES, STEP, sampled_maker, sampling_of
from penstock.replay.validation_result import ComparisonStatus
from penstock.shedding.offset_sampling import sample_steps
from tests.replay.shop_topics import PARTITIONS, SALES, Shop, shop

__all__ = ["shop"]

MAKER = RowMaker(JsonValues(pa.schema([("id", pa.int64())])), None, {"offset": "offset"}, ("id", "offset"))
VALUES = [b'{"id": 1}', b"bad", None, b'{"id": 2}']


def messages(offsets: Sequence[int]) -> Messages:
    stamps = np.zeros(len(offsets), [("kind", np.int64), ("ms", np.int64)])
    return Messages("t", 0, [VALUES[offset % 4] for offset in offsets], np.array(offsets, np.int64), stamps)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30), st.integers(0, 64)), max_size=4),
    st.lists(st.integers(0, 120), min_size=1, max_size=40, unique=True),
    st.booleans(),
)
def test_rows_have_their_steps_and_rates_and_those_that_did_not_stay_are_not_decoded(
    parts: list[tuple[int, int, int]], some: list[int], leaves_out: bool
) -> None:
    offsets, stretches, at = sorted(some), [], 0
    rate_of = dict[int, StretchRates]()
    for gap, length, step in parts:
        stretches.append(Stretch(at + gap, at + gap + length, StretchRates(step / 64)))
        rate_of |= dict.fromkeys(range(at + gap, at + gap + length), stretches[-1].rates)
        at += gap + length
    log = KeptLog("log", "job", 3, {("source", "t", 0): stretches, ("other", "t", 0): [Stretch(0, 9, ALL_KEPT)]})
    made = sampled_maker(MAKER, sampling_of(log, "source", leaves_out=leaves_out)).fresh().make(messages(offsets))
    assert len(made.row_of) + len(made.errors) + len(made.skipped) == len(offsets)
    steps = dict(zip(offsets, sample_steps(3, "t/0", np.array(offsets)).tolist(), strict=True))
    read = [offset for offset in offsets if not leaves_out or steps[offset] < rate_of.get(offset, ALL_KEPT).keep * 64]
    assert [offsets[index] for index, _ in made.errors] == [offset for offset in read if offset % 4 == 1]
    assert made.rows.schema.names == ["id", "offset", STEP, RATES]
    found = [(row["offset"], row[STEP], log.rates()[row[RATES]]) for row in made.rows.to_pylist()]
    assert found == [(offset, steps[offset], rate_of.get(offset, ALL_KEPT)) for offset in read if offset % 4 in (0, 3)]


@pytest.mark.long("three validations of a topic; what makes the rows is tested without a broker")
def test_a_stream_that_sheds_is_the_same_as_a_replay_of_what_the_log_says_was_kept(
    shop: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, seed, half = RowMaker.make, 5, SALES // PARTITIONS // 2

    def shedding(self: RowMaker, messages: Messages) -> DecodedMessages:
        """Shed half of the messages behind the middle of each partition."""
        made = make(self, messages)
        steps = sample_steps(seed, f"{shop.sales}/{messages.partition}", messages.offsets)
        kept = ((steps < 32) | (messages.offsets < half))[made.row_of]
        return replace(made, rows=made.rows.filter(pa.array(kept)), row_of=made.row_of[kept])

    monkeypatch.setattr(RowMaker, "make", shedding)
    shop.run()
    monkeypatch.undo()

    def log_of(seed: int) -> str:
        lines: list[dict[str, Any]] = [{"version": 2, "job": "shops", "seed": seed}]
        for partition in range(PARTITIONS):
            item = {"source": "sales", "topic": shop.sales, "partition": partition, "branches": {}}
            lines.append({**item, "from": 0, "to": half, "keep": 1.0})
            lines.append({**item, "from": half, "to": SALES, "keep": 0.5})
        file = shop.folder / f"kept-{seed}.jsonl"
        file.write_text("".join(json.dumps(item) + "\n" for item in lines))
        return str(file)

    offsets = np.arange(half, 2 * half)
    dropped = sum(int((sample_steps(seed, f"{shop.sales}/{p}", offsets) >= 32).sum()) for p in range(PARTITIONS))
    code, validation = shop.validate("--sink", "dear", "--kept", log_of(seed))
    assert (code, validation.left_out, validation.queries[0].status) == (0, dropped, ComparisonStatus.SAME)
    code, validation = shop.validate("--sink", "dear", "--kept", log_of(seed + 1))
    assert (code, validation.queries[0].status) == (1, ComparisonStatus.DIFFERS)
    file = shop.folder / "other.jsonl"
    line = {"source": "another", "topic": shop.sales, "partition": 0, "from": 0, "to": 9, "keep": 1, "branches": {}}
    file.write_text(json.dumps({"version": 2, "job": "shops", "seed": seed}) + "\n" + json.dumps(line) + "\n")
    assert shop.validate("--sink", "dear", "--kept", str(file))[0] == 1
