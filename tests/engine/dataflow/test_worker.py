"""The worker loop: turns, back-pressure, time accounting, barriers and ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.contract import Emission
from penstock.engine.core.elements import Barrier, EndOfStream, Idle, Watermark
from penstock.engine.core.watermark import WatermarkMerge
from penstock.engine.dataflow.accounting import Accounting, Activity
from penstock.engine.dataflow.input_gate import GateInput, InputGate
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.worker import Done, Ran, Waiting, Worker
from tests.engine.loop import Costly, channel, forward, instance, rows
from tests.engine.support import ManualClock

MS = 1_000_000


def run(worker: Worker) -> list[str]:
    ran = []
    while isinstance(outcome := worker.step(), Ran):
        ran.append(outcome.instance)
    return ran


def test_a_full_output_parks_the_producer_between_two_batches() -> None:
    clock = ManualClock()
    wide = channel(elements=[rows(100)])
    narrow = channel(capacity_bytes=900)
    producer = instance("producer", Costly(clock, copies=5), clock, [wide], forward(narrow))
    worker = Worker([producer], clock)
    run(worker)
    assert len(narrow.receiver) == 2
    assert producer.accounting.activity is Activity.OUTPUT_WAIT
    narrow.receiver.take()
    run(worker)
    assert len(narrow.receiver) == 2
    while len(narrow.receiver):
        narrow.receiver.take()
        run(worker)
    assert producer.accounting.activity is Activity.INPUT_WAIT


def test_control_elements_follow_the_rows_before_them() -> None:
    clock = ManualClock()
    inbound = channel(elements=[rows(3), Watermark(7), Barrier(1), rows(2), EndOfStream()])
    outbound = channel()
    operator = Costly(clock)
    worker = Worker([instance("one", operator, clock, [inbound], forward(outbound))], clock)
    run(worker)
    assert isinstance(worker.step(), Done)
    assert operator.seen[:4] == ["rows 3", "watermark 7", "barrier 1", "rows 2"]
    sent = [outbound.receiver.take() for _ in range(len(outbound.receiver))]
    assert [type(item).__name__ for item in sent] == [
        "Batch", "Watermark", "Barrier", "Batch", "Watermark", "EndOfStream",
    ]  # fmt: skip


def test_a_stop_without_draining_leaves_windows_open() -> None:
    clock = ManualClock()
    inbound = channel(elements=[rows(3), EndOfStream(drained=False)])
    outbound = channel()
    operator = Costly(clock)
    run(Worker([instance("one", operator, clock, [inbound], forward(outbound))], clock))
    assert operator.seen == ["rows 3"]
    assert [type(outbound.receiver.take()).__name__ for _ in range(len(outbound.receiver))] == ["Batch", "EndOfStream"]


def test_the_loop_says_when_nothing_can_run() -> None:
    clock = ManualClock()
    worker = Worker([instance("one", Costly(clock), clock, [channel()])], clock)
    assert worker.step() == Waiting(None)


def pipeline(clock: ManualClock, costs_ns: list[int], batches: int) -> list[Instance]:
    links = [channel(capacity_bytes=4_000) for _ in costs_ns]
    for _ in range(batches):
        links[0].sender.put(rows(250))
    outs = [*[forward(link) for link in links[1:]], []]
    return [
        instance(f"stage{index}", Costly(clock, cost), clock, [links[index]], outs[index])
        for index, cost in enumerate(costs_ns)
    ]


def test_four_instances_on_one_core_show_their_bottleneck() -> None:
    clock = ManualClock()
    stages = pipeline(clock, [1 * MS, 1 * MS, 20 * MS, 1 * MS], batches=400)
    worker = Worker(stages, clock)
    for _ in range(500):
        worker.step()
    now_ns = clock.monotonic_ns()
    spent = [stage.accounting.spent(now_ns) for stage in stages]
    saturation = [(item.busy_ns + item.core_wait_ns) / item.wall_ns for item in spent]
    assert saturation.index(max(saturation)) == 2
    assert saturation[2] > 0.9
    # What feeds the bottleneck waits for room, what it feeds waits for input.
    assert spent[1].output_wait_ns > 0.5 * spent[1].wall_ns
    assert spent[3].input_wait_ns > 0.5 * spent[3].wall_ns


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 30), st.integers(1, 200))
def test_time_spent_adds_up_to_the_wall(costs: list[int], batches: int, steps: int) -> None:
    clock = ManualClock()
    begin_ns = clock.monotonic_ns()
    stages = pipeline(clock, [cost * MS for cost in costs], batches)
    worker = Worker(stages, clock)
    for _ in range(steps):
        worker.step()
    clock.advance_ns(5 * MS)
    now_ns = clock.monotonic_ns()
    for stage in stages:
        spent = stage.accounting.spent(now_ns)
        assert spent.wall_ns == now_ns - begin_ns
        assert min(spent.busy_ns, spent.core_wait_ns, spent.input_wait_ns, spent.output_wait_ns) >= 0


def test_shares_divide_the_core() -> None:
    clock = ManualClock()
    left = instance("left", Costly(clock, 1 * MS), clock, [channel(elements=[rows(1)] * 3_000)])
    right = instance("right", Costly(clock, 1 * MS), clock, [channel(elements=[rows(1)] * 3_000)])
    worker = Worker([left, right], clock, {"left[0]": 3.0, "right[0]": 1.0})
    for _ in range(2_000):
        worker.step()
    now_ns = clock.monotonic_ns()
    ratio = left.accounting.spent(now_ns).busy_ns / right.accounting.spent(now_ns).busy_ns
    assert 2.7 < ratio < 3.3


def test_a_costly_batch_does_not_starve_the_others() -> None:
    clock = ManualClock()
    heavy = instance("heavy", Costly(clock, 50 * MS), clock, [channel(elements=[rows(1)] * 100)])
    light = instance("light", Costly(clock, 1 * MS), clock, [channel(elements=[rows(1)] * 2_000)])
    worker = Worker([heavy, light], clock)
    for _ in range(600):
        worker.step()
    now_ns = clock.monotonic_ns()
    ratio = heavy.accounting.spent(now_ns).busy_ns / light.accounting.spent(now_ns).busy_ns
    assert 0.8 < ratio < 1.25


def test_accounting_starts_by_waiting_for_input() -> None:
    accounting = Accounting(100)
    accounting.enter(Activity.BUSY, 130)
    accounting.enter(Activity.OUTPUT_WAIT, 150)
    spent = accounting.spent(160)
    assert (spent.input_wait_ns, spent.busy_ns, spent.output_wait_ns) == (30, 20, 10)


def test_rows_count_as_here_while_they_wait_and_are_worked_on() -> None:
    clock = ManualClock()
    inbound = channel()
    one = instance("one", Costly(clock, 2 * MS), clock, [inbound])
    worker = Worker([one], clock)
    worker.step()
    for count in (50, 30):
        inbound.sender.put(rows(count))
    began_ns = clock.monotonic_ns()
    worker.step()
    # The first batch took 2 ms, for which the second waited.
    assert one.accounting.row_ns(clock.monotonic_ns()) == 80 * 2 * MS
    clock.advance_ns(3 * MS)
    assert one.accounting.row_ns(clock.monotonic_ns()) == (80 * 2 + 30 * 3) * MS
    worker.step()
    assert one.accounting.row_ns(clock.monotonic_ns()) == (80 * 2 + 30 * 5) * MS
    clock.advance_ns(9 * MS)
    # Nothing is here any more.
    assert one.accounting.row_ns(clock.monotonic_ns()) == (80 * 2 + 30 * 5) * MS
    assert clock.monotonic_ns() - began_ns == 16 * MS


def test_rows_that_wait_for_room_are_still_worked_on() -> None:
    clock = ManualClock()
    wide, narrow = channel(elements=[rows(100)]), channel(capacity_bytes=100)
    producer = instance("producer", Costly(clock, 1 * MS, copies=2), clock, [wide], forward(narrow))
    worker = Worker([producer], clock)
    run(worker)
    assert producer.accounting.activity is Activity.OUTPUT_WAIT
    clock.advance_ns(7 * MS)
    assert producer.accounting.row_ns(clock.monotonic_ns()) >= 100 * 8 * MS
    narrow.receiver.take()
    run(worker)
    spent = producer.accounting.row_ns(clock.monotonic_ns())
    clock.advance_ns(7 * MS)
    assert producer.accounting.row_ns(clock.monotonic_ns()) == spent


def test_a_barrier_waits_for_all_channels_and_blocks_those_that_had_it() -> None:
    one, two = channel(), channel()
    gate = InputGate([GateInput(one.receiver, 0), GateInput(two.receiver, 1)])
    one.sender.put(Barrier(5))
    one.sender.put(rows(1))
    assert gate.take() is None
    assert not gate.has_input()
    two.sender.put(rows(2))
    assert gate.has_input()
    taken = gate.take()
    assert taken is not None and taken[0] == 1
    two.sender.put(Barrier(5))
    assert gate.take() == (1, Barrier(5))
    assert gate.has_input()


def test_an_ended_channel_counts_as_having_delivered_the_barrier() -> None:
    one, two = channel(elements=[Barrier(5)]), channel(elements=[EndOfStream()])
    gate = InputGate([GateInput(one.receiver, 0), GateInput(two.receiver, 0)])
    assert gate.take() is None
    taken = gate.take()
    assert taken is not None
    assert taken[1] == Barrier(5)


def test_the_last_end_ends_the_gate() -> None:
    one, two = channel(elements=[EndOfStream()]), channel(elements=[EndOfStream(drained=False)])
    gate = InputGate([GateInput(one.receiver, 0), GateInput(two.receiver, 0)])
    assert gate.take() is None
    assert gate.take() == (0, EndOfStream(drained=False))


def test_idle_inputs_do_not_hold_the_watermark() -> None:
    one, two = channel(), channel()
    gate = InputGate([GateInput(one.receiver, 0), GateInput(two.receiver, 0)])
    one.sender.put(Watermark(50))
    assert gate.take() is None
    two.sender.put(Idle())
    assert gate.take() == (0, Watermark(50))
    one.sender.put(Idle())
    assert gate.take() == (0, Idle())
    two.sender.put(Watermark(20))
    assert gate.take() is None
    assert gate.watermark_us == 50


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(-1000, 1000))), max_size=60))
def test_the_merged_watermark_never_goes_back(events: list[tuple[int, int | None]]) -> None:
    merge = WatermarkMerge(4)
    before = merge.time_us
    latest: dict[int, int] = {}
    for index, time_us in events:
        if time_us is None:
            advanced = merge.set_idle(index)
        else:
            latest[index] = max(latest.get(index, time_us), time_us)
            advanced = merge.advance(index, time_us)
        assert advanced == (merge.time_us > before)
        assert merge.time_us >= before
        before = merge.time_us
        if latest:
            assert before <= max(latest.values())


def test_instances_come_and_go_while_others_work() -> None:
    clock = ManualClock()
    inbound = {name: channel(elements=[rows(1)] * 4) for name in ("a", "b", "new")}
    made = {name: instance(name, Costly(clock, cost_ns=MS), clock, [inbound[name]]) for name in inbound}
    worker = Worker([made["a"], made["b"]], clock)
    assert isinstance(worker.step(), Ran)
    worker.remove([made["a"]])
    assert made["a"].accounting.activity is Activity.INPUT_WAIT
    inbound["a"].sender.put(rows(1))
    worker.wake()
    worker.add([made["new"]])
    assert set(run(worker)) == {"b[0]", "new[0]"}
    assert len(inbound["a"].receiver) >= 4


class Broken(Costly):
    def on_watermark(self, time_us: int) -> list[Emission]:
        raise ConnectionError


def test_the_worker_says_which_instance_raised() -> None:
    clock = ManualClock()
    healthy = instance("healthy", Costly(clock), clock, [channel(elements=[rows(1)] * 3)])
    broken = instance("broken", Broken(clock), clock, [channel(elements=[rows(1), Watermark(1), rows(1)])])
    worker = Worker([healthy, broken], clock)
    with pytest.raises(ConnectionError):
        run(worker)
    assert worker.at is broken
    worker.remove([broken])
    assert worker.at is None
    run(worker)
    assert worker.at is None
    assert isinstance(worker.step(), Waiting)
