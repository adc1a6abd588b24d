"""Query 11 of Nexmark, by the engine's own instances, in one process or with half of them in each of two.

Channels between the two go over a link. What an executor does besides is left out: checkpoints, failures, alignment of
sources of different processes.
"""

import os
import select
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from penstock.benchmarks.crossing.links import open_link
from penstock.benchmarks.crossing.pair import Figures, Request
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.benchmarks.nexmark.run import CountingSink
from penstock.dsl.job import Job
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.core.clock import SystemClock
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.builder import build
from penstock.engine.dataflow.instance_services import (
    Halves,
    InstanceServices,
    MakeChannel,
    everything_here,
    local_channel,
)
from penstock.engine.dataflow.worker import Done, Ran, Waiting, Worker
from penstock.engine.transport.linked import LinkedChannels
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.state.store import StateStore
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import StoreImage

QUERY = "q11"
_WAIT_S = 0.05
_UNSENT_S = 0.001


def run_sessions(side: int, request: Request) -> Iterator[Figures]:
    """Run the query over the files in ``directory`` at a ``parallelism``, over ``link`` if one is given.

    Report seconds of CPU and of the clock from the start to the end of both sides, rows of the result on this side,
    and rows that it received from the other.
    """
    sink = CountingSink()
    graph = _planned(Path(request["directory"]), sink, request["parallelism"])
    channels: LinkedChannels | None = None
    if request.get("link"):
        schema = _crossing_schema(graph)
        channels = LinkedChannels(
            open_link(request["link"], side, Path(request["meeting"]), schema, request.get("ring_bytes"))
        )
    with TemporaryDirectory(prefix="penstock-") as folder:
        shell = _Shell(channels)
        built = _built(graph, side, channels, Path(folder), shell)
        yield {}
        begun = time.process_time(), time.perf_counter()
        shell.turn()
        for instance in shell.worker.instances:
            for node in instance.nodes:
                node.operator.close()
        ended = time.process_time(), time.perf_counter()
        received = 0 if channels is None else _received(built, side)
        yield {"cpu_s": ended[0] - begun[0], "wall_s": ended[1] - begun[1], "rows": sink.rows, "received": received}
    for head in built.heads():
        head.close()
    shell.close()


def _planned(directory: Path, sink: CountingSink, parallelism: int) -> ExecutionGraph:
    job = Job()
    load(QUERY)(Events(job, directory)).write(sink).name(QUERY)
    return job.plan(parallelism)


def _crossing_schema(graph: ExecutionGraph) -> pa.Schema:
    (edge,) = (edge for edge in graph.edges if not edge.chained)
    return graph.node(edge.producer).outputs[edge.output].fields


class _Shell:
    """The loop of one side and its link: turns both, and waits for either."""

    def __init__(self, channels: LinkedChannels | None) -> None:
        """Begin without instances."""
        self.worker = Worker((), SystemClock(), quiet_ns=LoopOptions().linger_ms * 1_000_000)
        self._channels = channels
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def wake(self, instance: str) -> None:
        """Let the loop look at an instance; from any thread."""
        self.worker.wake(instance)
        os.eventfd_write(self._woken, 1)

    def turn(self) -> None:
        """Turn the loop to its end, and with it the link."""
        ended = False
        while True:
            outcome = self.worker.step()
            if self._channels is not None:
                self._channels.turn()
            if isinstance(outcome, Ran):
                continue
            if isinstance(outcome, Done):
                if self._channels is None:
                    return
                if not ended:
                    self._channels.link.end()
                    ended = True
                self._channels.link.flush()
                if self._channels.link.has_ended() and not self._channels.link.has_unsent():
                    return
            if not self.worker.is_touched():
                self._wait(outcome)

    def close(self) -> None:
        """Let go of everything."""
        if self._channels is not None:
            self._channels.link.close()
        os.close(self._woken)

    def _wait(self, outcome: Waiting | Done) -> None:
        seconds = _WAIT_S
        if isinstance(outcome, Waiting) and outcome.until_ns is not None:
            seconds = min(seconds, max(0.0, (outcome.until_ns - time.monotonic_ns()) / 1e9))
        readable: list[int] = [self._woken]
        if self._channels is not None:
            readable.append(self._channels.link.fileno())
            if self._channels.link.has_unsent():
                seconds = min(seconds, _UNSENT_S)
        if self._woken in select.select(readable, [], [], seconds)[0]:
            os.eventfd_read(self._woken)
        if self._channels is not None:
            self._channels.turn()


def _built(graph: ExecutionGraph, side: int, channels: LinkedChannels | None, folder: Path, shell: _Shell) -> Build:
    services = InstanceServices(
        SystemClock(),
        _memory_store,
        DeadLetterWriter(folder),
        wake=shell.wake,
        channel=local_channel if channels is None else _join_across(graph, side, channels),
        hosts=everything_here if channels is None else lambda task, index: index % 2 == side,
    )
    built = build(graph, LoopOptions(), services)
    shell.worker.add(built.instances)
    return built


def _join_across(graph: ExecutionGraph, side: int, channels: LinkedChannels) -> MakeChannel:
    """Return what makes the halves that are here, of channels that both sides number alike."""
    pairs = (
        (edge, producer, receiver)
        for edge in graph.edges
        for producer in range(graph.task_of(edge.producer).parallelism)
        for receiver in range(graph.task_of(edge.consumer).parallelism)
    )
    numbers = {pair: number for number, pair in enumerate(pairs)}

    def make(edge: Edge, producer: int, receiver: int, name: str, capacity_bytes: int) -> Halves:
        number = numbers[edge, producer, receiver]
        if producer % 2 == receiver % 2:
            return local_channel(edge, producer, receiver, name, capacity_bytes)
        if producer % 2 == side:
            return channels.sender(number, name, capacity_bytes), None
        return None, channels.receiver(number, name, capacity_bytes)

    return make


def _received(built: Build, side: int) -> int:
    return sum(
        half.received_rows
        for halves in built.receivers.values()
        for (producer, _), half in halves.items()
        if producer % 2 != side
    )


def _memory_store(operator: str, instance: int, image: StoreImage) -> StateStore:
    return MemoryStore(operator, None, image)
