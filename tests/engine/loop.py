"""A worker loop in a test's hands: operators that cost a given time on a clock that only they move."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.core.contract import MAIN, Emission, Operator, OperatorContext, RowCounters
from penstock.engine.core.elements import Batch, Element
from penstock.engine.dataflow.chain import ChainNode
from penstock.engine.dataflow.exchange import Forward, Output
from penstock.engine.dataflow.input_gate import GateInput, InputGate
from penstock.engine.dataflow.instance import Instance, Participation
from penstock.engine.transport.in_memory import Channel, join
from penstock.state.stores.memory_store import MemoryStore
from tests.engine.support import ManualClock


class Costly(Operator):
    """Passes batches on and takes ``cost_ns`` for each; remembers what it saw."""

    def __init__(self, clock: ManualClock, cost_ns: int = 0, copies: int = 1) -> None:
        self.clock = clock
        self.cost_ns = cost_ns
        self.copies = copies
        self.seen: list[str] = []

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        self.seen.append(f"rows {batch.rows.num_rows}")
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        for _ in range(self.copies):
            self.clock.advance_ns(self.cost_ns)
            yield MAIN, batch
        counters.passed += batch.rows.num_rows

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        self.seen.append(f"watermark {time_us}")
        return ()

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        self.seen.append(f"barrier {epoch}")
        return ()

    def on_end(self) -> Iterable[Emission]:
        self.seen.append("end")
        return ()


def rows(count: int) -> Batch:
    """Return a batch of ``count`` rows of 8 bytes."""
    return Batch(pa.record_batch({"x": np.arange(count)}))


def instance(
    name: str,
    operator: Operator,
    clock: ManualClock,
    inputs: list[Channel],
    outputs: list[Output] | None = None,
    participation: Participation | None = None,
    index: int = 0,
    key_groups: Sequence[int] = (0,),
) -> Instance:
    """Wire one operator between channels; ``key_groups`` are the owners."""
    counters = RowCounters()
    context = OperatorContext(
        name=name,
        instance=index,
        parallelism=max(key_groups) + 1,
        clock=clock,
        state=MemoryStore(name, None),
        counters=counters,
        dead_letters=DeadLetterWriter(Path("unused")),
        key_groups=np.array(key_groups, np.int32),
        batch_rows=32_768,
        seed=0,
    )
    operator.open(context)
    node = ChainNode(name, operator, counters, exchanged={MAIN: outputs or []})
    gate = InputGate([GateInput(channel.receiver, 0) for channel in inputs], number=index)
    return Instance(name, index, clock, root=node, gate=gate, participation=participation)


def channel(name: str = "channel", capacity_bytes: int = 1 << 20, elements: Iterable[Element] = ()) -> Channel:
    """Make a channel with these elements in it."""
    made = join(name, capacity_bytes)
    for element in elements:
        made.sender.put(element)
    return made


def forward(*channels: Channel) -> list[Output]:
    """Make one forward output per channel."""
    return [Forward([item.sender]) for item in channels]
