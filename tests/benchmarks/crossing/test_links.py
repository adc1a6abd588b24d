"""The links that are compared bring the same elements, whether the loop receives or a thread."""

import select
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.benchmarks.crossing.links import LINKS, open_link
from penstock.benchmarks.crossing.rows import SCHEMA, source_rows
from penstock.engine.core.elements import Barrier, Batch, EndOfStream, Watermark
from penstock.engine.transport.link import Arrival, Arrived, Granted, Link

ROWS = 5_000


@pytest.mark.parametrize("name", LINKS)
def test_elements_arrive(name: str, tmp_path: Path) -> None:
    opened: list[Link] = []
    thread = threading.Thread(target=lambda: opened.append(open_link(name, 1, tmp_path / "m", SCHEMA, 64 << 10)))
    thread.start()
    one = open_link(name, 0, tmp_path / "m", SCHEMA, 64 << 10)
    thread.join()
    other = opened[0]
    rows, picks = source_rows(ROWS)
    one.send(0, Batch(rows, 0.5, time.monotonic_ns()), picks, ROWS, 123)
    one.send(0, Watermark(5), None, 0, 0)
    one.send(1, Batch(rows), None, 2 * ROWS, 456)
    one.grant(7, 99)
    one.send(0, Barrier(3), None, 0, 0)
    one.send(0, EndOfStream(), None, 0, 0)
    one.end()
    other.end()
    arrived = drain(other, one)
    picked = rows.take(pa.array(picks))
    assert [item for item in arrived if isinstance(item, Granted)] == [Granted(7, 99)]
    elements = [(item.channel, item.element, item.rows, item.size) for item in arrived if isinstance(item, Arrived)]
    (_, first, first_rows, first_size), (_, second, second_rows, second_size) = elements[0], elements[2]
    assert isinstance(first, Batch) and first.rows.equals(picked) and first.keep == 0.5
    assert isinstance(second, Batch) and second.rows.equals(rows)
    assert (first_rows, first_size, second_rows, second_size) == (ROWS, 123, 2 * ROWS, 456)
    assert elements[1] == (0, Watermark(5), 0, 0)
    assert elements[3:] == [(0, Barrier(3), 0, 0), (0, EndOfStream(), 0, 0)]
    one.close()
    other.close()


def drain(link: Link, sender: Link) -> list[Arrival]:
    """Receive until both have ended."""
    arrived: list[Arrival] = []
    while not (link.has_ended() and sender.has_ended()):
        sender.flush()
        link.flush()
        select.select([link, sender], [], [], 0.05)
        arrived += link.receive()
        sender.receive()
    return arrived
