"""Nexmark messages: what is written is read back, whatever a message is like costs it alone."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.benchmarks.nexmark.messages import EVENT_TYPE, TIMES, NexmarkValues, column_of, event_messages
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.connectors.nexmark.generator import KINDS, generate, rows_before

CONFIG = NexmarkConfig(2_000, out_of_order_group=7)


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize(("first", "end"), [(0, 2_000), (333, 1_001)])
def test_events_come_back_as_they_were(times: str, first: int, end: int) -> None:
    decoded = NexmarkValues().decode(event_messages(CONFIG, first, end, times).to_pylist())
    assert decoded.errors == [] and decoded.row_of.tolist() == list(range(end - first))
    for number, kind in enumerate(KINDS):
        rows = decoded.rows.filter(pc.equal(decoded.rows[EVENT_TYPE], number))
        begin = rows_before(CONFIG, kind, first)
        made = generate(CONFIG, kind, begin, rows_before(CONFIG, kind, end) - begin)
        for field in made.schema:
            assert rows[column_of(kind, field.name)].equals(made[field.name])


def test_a_message_costs_itself_only() -> None:
    good = [event_messages(CONFIG, 9, 10, times)[0].as_py() for times in TIMES]
    bad = [b'{"event_type":3}', b"{}", b"no", good[0].replace(b"2024-", b"24-")]
    decoded = NexmarkValues().decode([good[0], *bad[:2], good[2], *bad[2:], good[1]])
    assert decoded.row_of.tolist() == [0, 3, 6]
    assert [index for index, _ in decoded.errors] == [1, 2, 4, 5]
    assert "event_type is 3, which is none of 0 person, 1 auction, 2 bid" in decoded.errors[0][1]
    assert decoded.rows.slice(0, 1).equals(decoded.rows.slice(1, 1))


def test_only_what_is_asked_for_is_read() -> None:
    message = b'{"event_type":2,"person":null,"auction":7,"bid":{"auction":"x","price":5,"dateTime":1}}'
    whole = NexmarkValues()
    assert len(whole.decode([message]).errors) == 1
    priced = whole.restrict(["bid_price", EVENT_TYPE]).fresh()
    assert priced.schema == pa.schema([("bid_price", pa.int64()), (EVENT_TYPE, pa.int64())])
    assert priced.decode([message]).rows.to_pylist() == [{"bid_price": 5, EVENT_TYPE: 2}]
    nothing = whole.restrict([]).decode([message, b"{}"])
    assert nothing.row_of.tolist() == [0] and len(nothing.errors) == 1
