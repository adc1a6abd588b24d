"""Rows from one process to another as fast as they go: CPU of both sides for a row."""

import select
import time
from collections.abc import Iterator
from pathlib import Path

from penstock.benchmarks.crossing.links import open_link
from penstock.benchmarks.crossing.pair import Figures, Request
from penstock.benchmarks.crossing.rows import SCHEMA, source_rows
from penstock.engine.core.elements import Barrier, Batch
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.engine.transport.linked import LinkedChannels
from penstock.engine.transport.picked_rows import Picks

CAPACITY_BYTES = 8 << 20
"""As channels of a job have."""

_WAIT_S = 0.05


def cross(side: int, request: Request) -> Iterator[Figures]:
    """Send ``batches`` of ``rows`` rows from side 0 to side 1, a quarter more before that do not count.

    With ``picked`` they are picked of twice as many on their way. Report seconds of CPU and of the clock.
    """
    link = open_link(request["link"], side, Path(request["meeting"]), SCHEMA, request.get("ring_bytes"))
    channels = LinkedChannels(link)
    if side == 0:
        sender = channels.sender(0, "crossing", CAPACITY_BYTES)
        rows, picks = source_rows(request["rows"])
        batch = Batch(rows if request["picked"] else rows.slice(0, request["rows"]))
        yield {}
        for epoch, count in enumerate((request["batches"] // 4, request["batches"])):
            begun = time.process_time(), time.perf_counter()
            _send(channels, sender, batch, picks if request["picked"] else None, count)
            sender.put(Barrier(epoch))
            while channels.link.has_unsent() or (epoch == 0 and sender.credit_bytes < CAPACITY_BYTES * 7 // 8):
                _turn(channels)
            ended = time.process_time(), time.perf_counter()
        link.end()
    else:
        receiver = channels.receiver(0, "crossing", CAPACITY_BYTES)
        yield {}
        for _ in range(2):
            begun = time.process_time(), time.perf_counter()
            _receive(channels, receiver)
            ended = time.process_time(), time.perf_counter()
        link.end()
    while not link.has_ended() or link.has_unsent():
        _turn(channels)
    yield {"cpu_s": ended[0] - begun[0], "wall_s": ended[1] - begun[1]}
    link.close()


def _send(channels: LinkedChannels, sender: SendingHalf, batch: Batch, picks: Picks | None, count: int) -> None:
    for _ in range(count):
        while not sender.has_room():
            _turn(channels)
        sender.put(batch, picks)
        channels.turn()
    channels.link.flush()


def _receive(channels: LinkedChannels, receiver: ReceivingHalf) -> None:
    """Take what comes up to the next barrier."""
    while True:
        while len(receiver):
            if isinstance(receiver.take(), Barrier):
                return
        _turn(channels)


def _turn(channels: LinkedChannels) -> None:
    channels.link.flush()
    select.select([channels.link], [], [], 0.001 if channels.link.has_unsent() else _WAIT_S)
    channels.turn()
