"""The gate of an instance's input channels: fair choice, merged watermarks, aligned barriers, the end of all inputs."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from penstock.engine.core.contract import asleep
from penstock.engine.core.elements import (
    END_OF_TIME_US,
    Barrier,
    Batch,
    CancelBarrier,
    Element,
    EndOfStream,
    Idle,
    Left,
    Reroute,
    Watermark,
    sum_of_sic,
)
from penstock.engine.core.watermark import RisingTimes, WatermarkMerge
from penstock.engine.transport.halves import ReceivingHalf, WaitingInput
from penstock.engine.transport.picked_rows import Part, Picks, put_together
from penstock.model.errors import BugError


@dataclass(frozen=True, slots=True)
class GateInput:
    """The receiving half of a channel and the operator port it feeds."""

    receiver: ReceivingHalf
    port: int


class InputGate:
    """Merges channels into one sequence of (port, element), in the order of each channel.

    Watermarks and idleness are merged; a barrier or reroute comes out once, when every open channel has delivered
    it, and a channel that delivered it is blocked until then; the end comes out when every channel has ended. A channel
    that brings a later barrier, or a reroute, in the place of the barrier that others have delivered will never bring
    that one: it is given up (`take_given_up`), its channels are read on, and what is left of it is dropped. So is one
    that a channel cancels. A reroute that does not concern the instance blocks no channel, and no barrier.

    Channels may `join` later, and one may say that its sender has `Left`: it counts no more, and the others decide.
    When the last one ends or leaves, what comes out is the end, or `Left` if the instance itself was dismissed.

    Batches of one port that wait already come out as one, of at most ``batch_rows``: an exchange cuts batches to
    pieces, and every piece would cost its receiver as many steps as a whole one. One that is large and was not cut
    comes out as it is: to copy it costs more than the steps that would be saved.
    """

    def __init__(self, inputs: Sequence[GateInput], batch_rows: int = 1, number: int | None = None) -> None:
        """Take the channels, at least one; ``number`` is the instance's in its task, None: any reroute concerns it."""
        self.inputs = tuple(inputs)
        self.on_input: Callable[[], None] = asleep
        """Called when something has arrived; set by the loop that steps the gate's instance."""
        self._receivers = [item.receiver for item in inputs]
        self._waiting = WaitingInput()
        # Channels whose turn comes, oldest first, each once; some may have been emptied or blocked since.
        self._turns: deque[int] = deque()
        self._has_turn = [False] * len(inputs)
        self._merge = WatermarkMerge(len(inputs))
        self._port_times, self._place = _port_times(inputs)
        self._ended = 0
        self._drained = True
        self._blocked: set[int] = set()
        self._awaited: Barrier | Reroute | None = None
        self._number = number
        # Reroutes that do not concern the instance, oldest first, and the open channels that have delivered each.
        self._passing: dict[Reroute, set[int]] = {}
        # Of channels that joined later the last move before that: its marker, and those of earlier ones, never come.
        self._since: dict[int, int] = {}
        self._gone: set[int] = set()
        self._dismissed = False
        # The greatest epoch whose barrier came out or was given up; 0: none.
        self._past_epoch = 0
        self._given_up: list[int] = []
        self._released: deque[tuple[int, Element]] = deque()
        self._said_idle = False
        self._batch_rows = self._most_rows = batch_rows
        self._overtaken = False
        for index in range(len(inputs)):
            self._listen(index)

    def join(self, item: GateInput, last_move: int) -> None:
        """Take in one more channel of a port that has some, between two steps; no barrier may be under way.

        The merged watermark stays until the channel has brought one. Markers of moves up to ``last_move`` never come
        on it.
        """
        index = len(self.inputs)
        self.inputs += (item,)
        self._receivers.append(item.receiver)
        self._has_turn.append(False)
        self._merge.join()
        if self._port_times:
            self._place.append(self._port_times[item.port].join())
        self._since[index] = last_move
        self._said_idle = False
        self._listen(index)

    def _listen(self, index: int) -> None:
        self._receivers[index].count_in(self._waiting)
        self._receivers[index].on_arrival = partial(self._arrived, index)
        self._give_turn(index)

    @property
    def waiting_bytes(self) -> int:
        """The bytes that wait in all channels."""
        return self._waiting.bytes

    @property
    def waiting_rows(self) -> int:
        """The rows that wait in all channels."""
        return self._waiting.rows

    @property
    def watermark_us(self) -> int:
        """The merged watermark."""
        return self._merge.time_us

    @property
    def awaits_reroute(self) -> bool:
        """Whether a channel has delivered the marker of a move, and is not read on until others have."""
        return isinstance(self._awaited, Reroute)

    def has_input(self) -> bool:
        """Return whether `take` would find an element."""
        return self._overtaken or bool(self._released) or self._next_turn() is not None

    def is_hurried(self) -> bool:
        """Return whether there is input, and a signal waits in a channel or is awaited on others: not a watermark."""
        return (self._waiting.signals > 0 or self._awaited is not None) and self.has_input()

    def has_little(self) -> bool:
        """Return whether less than a full batch waits."""
        return 4 * self._waiting.rows < 3 * self._batch_rows

    def is_thin(self) -> bool:
        """Return whether less than a full batch waits, and nothing that more rows must not be waited for."""
        return self.has_little() and not (self._waiting.signals or self._released or self._blocked)

    def take(self, batches: int = 1) -> tuple[int, Element] | None:
        """Take one element from the next channel that has one; None when it changed nothing for the operators.

        Rows that wait come as so many full batches in one.
        """
        if self._overtaken:
            self._overtaken = False
            return self.inputs[0].port, Watermark(self._merge.time_us)
        if self._released:
            return self._released.popleft()
        index = self._next_turn()
        if index is None:
            return None
        self._turns.rotate(-1)
        self._most_rows = batches * self._batch_rows
        return self._accept(index, *self._receivers[index].take_share())

    def take_given_up(self) -> list[int]:
        """Return the epochs whose barriers were given up since the last call."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def _arrived(self, index: int) -> None:
        self._give_turn(index)
        self.on_input()

    def _give_turn(self, index: int) -> None:
        if not self._has_turn[index] and len(self._receivers[index]):
            self._has_turn[index] = True
            self._turns.append(index)

    def _next_turn(self) -> int | None:
        """Return the channel whose turn it is, None if none has something to take."""
        while self._turns:
            index = self._turns[0]
            if len(self._receivers[index]) and index not in self._blocked:
                return index
            self._has_turn[index] = False
            self._turns.popleft()
        return None

    def _unblock(self) -> None:
        blocked = sorted(self._blocked)
        self._blocked.clear()
        for index in blocked:
            self._give_turn(index)

    def _advance(self, index: int, time_us: int) -> bool:
        if self._port_times:
            self._port_times[self.inputs[index].port].rise(self._place[index], time_us)
        return self._merge.advance(index, time_us)

    def _opposite_us(self, port: int) -> int:
        """Return what has come on the other ports, idle channels included."""
        return min(times.least_us for other, times in self._port_times.items() if other != port)

    def _accept(self, index: int, element: Element, picks: Picks | None) -> tuple[int, Element] | None:
        port = self.inputs[index].port
        if isinstance(element, Batch):
            if not element.rows.num_rows:
                # SIC alone: its channel may be idle.
                return port, element
            self._merge.set_active(index)
            self._said_idle = False
            batch = self._joined(index, element, picks)
            if self._port_times:
                batch = replace(batch, opposite_us=self._opposite_us(port))
            return port, batch
        if isinstance(element, Watermark):
            advanced = self._advance(index, element.time_us)
            self._said_idle = False
            return (port, Watermark(self._merge.time_us)) if advanced else None
        if isinstance(element, Idle):
            return self._idle(port, self._merge.set_idle(index))
        if isinstance(element, EndOfStream | Left):
            return self._end(index, element)
        if isinstance(element, CancelBarrier):
            if element.epoch > self._past_epoch:
                self._cancel(element.epoch)
            return None
        return self._align(index, element)

    def _joined(self, index: int, first: Batch, picks: Picks | None) -> Batch:
        """Return a batch with those that wait behind it, and at the heads of the other channels of its port."""
        if self._is_large(first, picks):
            return first
        parts: list[Part] = [(first.rows, picks)]
        rows, ingest_ns, sic = first.rows.num_rows if picks is None else picks.size, first.ingest_ns, first.sic
        port = self.inputs[index].port
        # A channel that has something to take has a turn.
        others = [other for other in self._turns if other != index and other not in self._blocked]
        for other in (index, *others):
            if self.inputs[other].port != port:
                continue
            while rows < self._most_rows and self._has_next(other, first):
                batch, share = self._take_batch(other, self._most_rows - rows)
                parts.append((batch.rows, share))
                ingest_ns, sic = min(ingest_ns, batch.ingest_ns), sum_of_sic(sic, batch.sic)
                rows += batch.rows.num_rows if share is None else share.size
        if len(parts) == 1 and picks is None:
            return first
        return replace(first, rows=put_together(parts), ingest_ns=ingest_ns, sic=sic)

    def _has_next(self, index: int, first: Batch) -> bool:
        """Return whether a batch of the same rates to be joined comes next in a channel, behind watermarks at most."""
        for element, picks in self._receivers[index].shares():
            if isinstance(element, Batch):
                rates = element.keep, element.branches, element.keys
                same = rates == (first.keep, first.branches, first.keys)
                return same and element.rows.num_rows > 0 and not self._is_large(element, picks)
            if not isinstance(element, Watermark):
                return False
        return False

    def _is_large(self, batch: Batch, picks: Picks | None) -> bool:
        return picks is None and 2 * batch.rows.num_rows >= self._batch_rows

    def _take_batch(self, index: int, most_rows: int) -> tuple[Batch, Picks | None]:
        while True:
            element, picks = self._receivers[index].take_share(most_rows)
            if isinstance(element, Batch):
                self._merge.set_active(index)
                return element, picks
            assert isinstance(element, Watermark)
            # It comes out after the rows that it was ahead of: a watermark may be late, but never early.
            self._overtaken |= self._advance(index, element.time_us)

    def _idle(self, port: int, advanced: bool) -> tuple[int, Element] | None:
        if advanced:
            return port, Watermark(self._merge.time_us)
        if self._merge.idle and not self._said_idle:
            self._said_idle = True
            return port, Idle()
        return None

    def _end(self, index: int, element: EndOfStream | Left) -> tuple[int, Element] | None:
        self._gone.add(index)
        self._ended += 1
        port = self.inputs[index].port
        if isinstance(element, Left):
            self._dismissed |= element.dismissed
        else:
            self._drained = self._drained and element.drained
        if self._ended == len(self.inputs):
            return port, Left() if self._dismissed else EndOfStream(self._drained)
        # An ended channel counts as having delivered a watermark at the end of time and every later barrier.
        if self._closes(index, element):
            self._released.append((port, Watermark(self._merge.time_us)))
        self._released.extend((port, reroute) for reroute in self._passed())
        aligned = self._release(port)
        if aligned is not None:
            self._released.append(aligned)
        return self._released.popleft() if self._released else None

    def _closes(self, index: int, element: EndOfStream | Left) -> bool:
        """Count a channel that has ended or was left no more; return whether the merged watermark advanced."""
        if isinstance(element, EndOfStream):
            return element.drained and self._advance(index, END_OF_TIME_US)
        if self._port_times:
            self._port_times[self.inputs[index].port].rise(self._place[index], END_OF_TIME_US)
        return self._merge.leave(index)

    def _align(self, index: int, element: Barrier | Reroute) -> tuple[int, Element] | None:
        awaited = self._awaited
        if isinstance(element, Reroute) and not element.concerns(self._number):
            self._passing.setdefault(element, set()).add(index)
            return next(((self.inputs[index].port, reroute) for reroute in self._passed()), None)
        if isinstance(element, Barrier):
            if element.epoch <= self._past_epoch:
                return None
            if isinstance(awaited, Reroute) or (awaited is not None and element.epoch < awaited.epoch):
                self._give_up(element.epoch)
                return None
        if awaited is not None and element != awaited:
            if isinstance(awaited, Reroute):
                raise BugError(f"a channel brings {element} while {awaited} is awaited: neither may be passed over")
            self._give_up(awaited.epoch)
            self._unblock()
        self._awaited = element
        self._blocked.add(index)
        return self._release(self.inputs[index].port)

    def _passed(self) -> list[Reroute]:
        """Take out the reroutes that every open channel has delivered."""
        passed = [item for item, by in self._passing.items() if not self._lack(item, by)]
        for reroute in passed:
            del self._passing[reroute]
        return passed

    def _lack(self, reroute: Reroute, delivered: set[int]) -> bool:
        """Return whether a channel is still to deliver a reroute."""
        without = {index for index, move in self._since.items() if reroute.move <= move}
        return len(delivered | without | self._gone) < len(self.inputs)

    def _cancel(self, epoch: int) -> None:
        awaited = self._awaited
        if isinstance(awaited, Barrier) and awaited.epoch <= epoch:
            if awaited.epoch < epoch:
                self._give_up(awaited.epoch)
            self._awaited = None
            self._unblock()
        self._give_up(epoch)

    def _give_up(self, epoch: int) -> None:
        self._past_epoch = epoch
        self._given_up.append(epoch)

    def _release(self, port: int) -> tuple[int, Element] | None:
        # A blocked channel is not read on, so it cannot have ended.
        if self._awaited is None or len(self._blocked) + self._ended < len(self.inputs):
            return None
        element, self._awaited = self._awaited, None
        if isinstance(element, Barrier):
            self._past_epoch = element.epoch
        self._unblock()
        return port, element


def _port_times(inputs: Sequence[GateInput]) -> tuple[Mapping[int, RisingTimes], list[int]]:
    """Return what keeps the watermarks of each port, none if there is one port only, and each channel's place there."""
    counts: Counter[int] = Counter()
    places = []
    for item in inputs:
        places.append(counts[item.port])
        counts[item.port] += 1
    times = {port: RisingTimes(count) for port, count in counts.items()} if len(counts) > 1 else {}
    return times, places
