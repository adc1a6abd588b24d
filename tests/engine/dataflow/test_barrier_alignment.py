"""Barriers, reroutes and ends on the channels of one gate, in every order: none is lost in silence, none hangs."""

from collections.abc import Iterator, Sequence
from itertools import product

import pyarrow as pa
import pytest

from penstock.engine.core.elements import Barrier, Batch, Element, EndOfStream, Reroute
from penstock.engine.dataflow.checkpoint_port import BarrierGivenUp, Report
from penstock.engine.dataflow.cut import InstanceCut
from penstock.engine.dataflow.input_gate import GateInput, InputGate
from penstock.engine.dataflow.instance import Participation
from penstock.engine.transport.in_memory import join
from penstock.model.errors import BugError
from penstock.model.ids import TaskId
from tests.engine.loop import Costly, channel, instance, rows
from tests.engine.support import ManualClock

FIVE, SIX, SEVEN = Barrier(5), Barrier(6), Barrier(7)
REROUTE = Reroute(5, TaskId(0), ((0, 0, 1),))
Place = tuple[int, int]
"""A channel, and how many of its elements came before."""


def marker(channel: int, place: int) -> Batch:
    """A row that tells its channel and how many of its barriers and reroutes it came behind."""
    return Batch(pa.record_batch({"channel": [channel], "place": [place]}))


def orders(counts: Sequence[int]) -> Iterator[list[int]]:
    """Every order in which so many elements of each channel can arrive."""
    if not any(counts):
        yield []
        return
    for index, count in enumerate(counts):
        if count:
            rest = [other - (place == index) for place, other in enumerate(counts)]
            for order in orders(rest):
                yield [index, *order]


class Drive:
    """A gate over channels whose elements arrive one by one; holds what comes out against what may."""

    def __init__(self, sent: Sequence[Sequence[Element]]) -> None:
        self.sent = sent
        self.channels = [join(str(index), 1 << 20) for index in range(len(sent))]
        # Batches of several channels are not joined, so that every row tells where it came.
        self.gate = InputGate([GateInput(item.receiver, 0) for item in self.channels])
        self.out: list[Element] = []
        self.given_up: list[int] = []
        self.rows: list[Place] = []
        self.cuts: dict[Element, int] = {}

    def run(self, order: Sequence[int], *, at_once: bool) -> None:
        placed = [0] * len(self.sent)
        for index in order:
            self.channels[index].sender.put(marker(index, placed[index]))
            self.channels[index].sender.put(self.sent[index][placed[index]])
            placed[index] += 1
            if not at_once:
                self.take()
        self.take()

    def take(self) -> None:
        while self.gate.has_input():
            taken = self.gate.take()
            self.given_up += self.gate.take_given_up()
            if taken is None:
                continue
            element = taken[1]
            if isinstance(element, Batch):
                self.rows += [(row["channel"], row["place"]) for row in element.rows.to_pylist()]
            elif isinstance(element, Barrier | Reroute):
                self.out.append(element)
                self.cuts[element] = len(self.rows)
            else:
                self.out.append(element)

    def check(self) -> None:
        assert self.out[-1] == EndOfStream() and self.out.count(EndOfStream()) == 1, "the gate hangs"
        assert not any(len(item.receiver) for item in self.channels)
        known = {element for items in self.sent for element in items}
        barriers = {item.epoch for item in known if isinstance(item, Barrier)}
        passed = [item.epoch for item in self.out if isinstance(item, Barrier)]
        assert passed == sorted(set(passed))
        assert sorted(passed + self.given_up) == sorted(barriers), "each comes out or is given up, once"
        for element, count in self.cuts.items():
            before = set(self.rows[:count])
            for index, items in enumerate(self.sent):
                # A channel that ended counts as having delivered it.
                last = items.index(element) if element in items else items.index(EndOfStream())
                assert before >= {(index, place) for place in range(last + 1)}
                assert not before & {(index, place) for place in range(last + 1, len(items))}
        if all(REROUTE in items for items in self.sent):
            assert self.out.count(REROUTE) == 1


SEQUENCES: list[list[Element]] = [
    [*kind, EndOfStream()]
    for kind in ([], [FIVE], [SIX], [FIVE, SIX], [FIVE, SEVEN], [REROUTE, SIX], [FIVE, REROUTE], [REROUTE])
]  # fmt: skip


def reroutes_meet(sent: Sequence[Sequence[Element]]) -> bool:
    """Whether a reroute is on all channels or on none: it concerns all who send to a receiver."""
    return len({REROUTE in items for items in sent}) == 1


@pytest.mark.parametrize("at_once", [False, True])
def test_two_channels_in_every_order(at_once: bool) -> None:
    cases = 0
    for sent in product(SEQUENCES, repeat=2):
        if reroutes_meet(sent):
            for order in orders([len(items) for items in sent]):
                drive = Drive(sent)
                drive.run(order, at_once=at_once)
                drive.check()
                cases += 1
    assert cases > 300


def test_three_channels_in_every_order() -> None:
    few = [[FIVE, EndOfStream()], [SIX, EndOfStream()], [REROUTE, EndOfStream()], [FIVE, SIX, EndOfStream()]]
    few += [[FIVE, REROUTE, EndOfStream()]]
    for sent in product(few, repeat=3):
        if reroutes_meet(sent) and sum(map(len, sent)) < 8:
            for order in orders([len(items) for items in sent]):
                drive = Drive(sent)
                drive.run(order, at_once=False)
                drive.check()


def test_a_later_barrier_gives_the_earlier_one_up_and_is_itself_aligned() -> None:
    one, two = channel(elements=[FIVE, rows(1), SIX]), channel(elements=[SIX])
    gate = InputGate([GateInput(one.receiver, 0), GateInput(two.receiver, 0)])
    taken = []
    while gate.has_input():
        taken.append(gate.take())
    assert [item[1] for item in taken if item is not None and not isinstance(item[1], Batch)] == [SIX]
    assert gate.take_given_up() == [5]
    assert gate.take_given_up() == []


def test_two_reroutes_that_meet_are_a_bug_and_neither_is_passed_over() -> None:
    one, two = channel(elements=[REROUTE]), channel(elements=[Reroute(6, TaskId(0), ((0, 1, 0),))])
    gate = InputGate([GateInput(one.receiver, 0), GateInput(two.receiver, 0)])
    gate.take()
    with pytest.raises(BugError, match="neither may be passed over"):
        gate.take()


def test_an_instance_says_which_barrier_it_will_never_pass() -> None:
    clock = ManualClock()
    one, two = channel(elements=[FIVE, SIX]), channel(elements=[SIX])
    operator = Costly(clock)
    reports: list[Report] = []
    made = instance("task", operator, clock, [one, two], participation=Participation(reports.append, last_epoch=4))
    assert made.delivered == 4
    while made.has_barrier() or (made.gate is not None and made.gate.has_input()):
        made.step()
    given_up, cut = reports
    assert given_up == BarrierGivenUp("task[0]", 5)
    assert isinstance(cut, InstanceCut) and (cut.instance, cut.epoch, cut.ended) == ("task[0]", 6, False)
    assert operator.seen == ["barrier 6"]
