"""The guard lowers what falls behind within a second, gives way to the controller, and leaves slow sinks alone."""

from penstock.model.keep_rates import KeepRates
from penstock.shedding.guard import GuardMemory, GuardRule, SourceInput, capped, decided, looked
from penstock.shedding.keep_settings import ShedderQueries

RULE = GuardRule()
EDGE = ("parse", "hot")
ONE = ShedderQueries({"clicks": ("hot", "totals")}, {EDGE: ("hot",)}, {EDGE: "clicks"}, {"clicks": 0.5}, {EDGE: 0.25})


def looks(memory: GuardMemory, offered: float, consumed: float, worked: float, seconds: float = 2.0) -> GuardMemory:
    """Let a source be offered and read so many rows/s for a while, which begins with a backlog of a second."""
    for look in range(int(seconds * 4)):
        time_s = 100.0 + look / 4
        inputs = {"clicks": SourceInput(offered * (1 + look / 4), consumed * look / 4)}
        memory = looked(RULE, memory, ONE, time_s, worked, inputs)
    return memory


def test_a_source_that_falls_behind_is_capped_at_the_rate_that_it_is_read_at() -> None:
    memory = looks(GuardMemory(), 1000.0, 800.0, worked=1.0)
    assert capped(ONE, memory).sources == {"clicks": 51 / 64}


def test_no_cap_is_below_a_minimum() -> None:
    memory = looks(GuardMemory(), 1000.0, 100.0, worked=1.0)
    assert capped(ONE, memory) == KeepRates({"clicks": 0.5}, {EDGE: 0.25})


def test_rows_that_wait_for_a_slow_sink_are_not_shed() -> None:
    assert capped(ONE, looks(GuardMemory(), 1000.0, 100.0, worked=0.4)) == KeepRates()


def test_a_source_that_catches_up_is_not_shed() -> None:
    assert capped(ONE, looks(GuardMemory(), 1000.0, 1100.0, worked=1.0)) == KeepRates()


def test_the_controller_raises_what_the_guard_lowered_by_a_tenth_a_cycle() -> None:
    memory = looks(GuardMemory(), 1000.0, 600.0, worked=1.0)
    before = capped(ONE, memory).sources["clicks"]
    memory = decided(RULE, memory, KeepRates())
    after = capped(ONE, memory).sources["clicks"]
    assert before < after <= before + 0.1 + 1 / 64


def test_a_controller_that_sheds_more_takes_over() -> None:
    memory = looks(GuardMemory(), 1000.0, 800.0, worked=1.0)
    memory = decided(RULE, memory, KeepRates({"clicks": 0.5}))
    assert memory.caps == {} and capped(ONE, memory) == KeepRates({"clicks": 0.5})
    assert capped(ONE, decided(RULE, memory, KeepRates())) == KeepRates()


def test_a_source_whose_queries_have_come_to_need_all_rows_is_capped_no_more() -> None:
    memory = looks(GuardMemory(), 1000.0, 600.0, worked=1.0)
    assert capped(ShedderQueries(), memory) == KeepRates()
