"""A small job that takes checkpoints and goes on for ever, for what looks at running jobs and their checkpoints."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.dsl.handle import Handle
from penstock.dsl.job import Job
from penstock.model.connectors import Reader, Source
from tests.penstock.front_door import ORDERS, SCHEMA, Script, ScriptReader, Step, batch

LONG_S = 30.0
"""Longer than anything here takes."""


class Endless(Script):
    """Reads `ORDERS` once, and then has nothing for ever; ``read`` is set once they were read."""

    def __init__(self) -> None:
        super().__init__(SCHEMA, (), bounded=False)
        self.read = threading.Event()

    def open(self, partition: str, position: Any | None) -> Reader:
        return ScriptReader(self, self._script(again=position is not None))

    def _script(self, again: bool) -> Iterator[Step]:
        if not again:
            yield batch(*ORDERS)
        self.read.set()
        yield from repeat(ps.NOTHING)


def per_item(folder: Path, source: Source | None = None) -> Job:
    """Count and add up `ORDERS` by item, for ever."""
    orders = ps.read(source or Endless(), time="at", watermark="1s", job=Job()).name("orders")
    totals = orders.key_by("item").agg(n=ps.count(), total=ps.sum_("price")).name("per item")
    totals.write_json(str(folder / "out"), mode="changelog").name("out")
    return totals.job


@contextmanager
def running(folder: Path, name: str = "items", **options: Any) -> Iterator[Handle]:
    """Run `per_item` until the orders are read, with checkpoints on request (as good as), and stop it in the end."""
    given = {"checkpoint_interval": "1h", "directory": folder / "job", **options}
    source = Endless()
    handle = per_item(folder, source).start(name, checkpoint_dir=folder / "checkpoints", **given)
    try:
        assert source.read.wait(LONG_S)
        yield handle
    finally:
        if handle.running:
            handle.stop()
