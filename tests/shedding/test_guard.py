"""The guard lowers what falls behind within a second, gives way to the controller, and leaves slow sinks alone."""

from dataclasses import replace

from penstock.model.keep_rates import KeepRates
from penstock.shedding.guard import GuardMemory, GuardRule, SourceInput, capped, decided, looked
from penstock.shedding.keep_settings import ShedderQueries

RULE = GuardRule()
EDGE = ("parse", "hot")
ONE = ShedderQueries(
    {"clicks": ("hot", "totals")},
    {EDGE: ("hot",)},
    {EDGE: "clicks"},
    {"clicks": 0.5},
    {EDGE: 0.25},
    {"clicks": 1.0},
    {EDGE: 1.0},
)


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


def behind(rates: KeepRates, *rows: float) -> KeepRates:
    """Return the rates after looks at which so many rows waited of 1,000 offered a second."""
    memory = GuardMemory(wanted=rates)
    for look, waits in enumerate(rows):
        offered = 10_000 + 250.0 * look
        memory = looked(RULE, memory, ONE, 100.0 + look / 4, 1.0, {"clicks": SourceInput(offered, offered - waits)})
    return capped(ONE, memory)


def test_a_backlog_grows_that_is_known_in_bursts() -> None:
    """The log's end is heard of now and then, and sources take turns: what waits goes up and down."""
    waits = [0, 300, 150, 450, 300, 600, 450, 750]
    assert behind(KeepRates(), *waits).sources["clicks"] < 1.0
    assert behind(KeepRates(), *(wait % 600 for wait in waits)) == KeepRates()


def test_a_pause_is_no_overload() -> None:
    """All was read before it, and is again behind it."""
    pause = [250 * look for look in range(6)]
    assert behind(KeepRates(), *[0] * 8, *pause, 1_000, 700, 300, 0) == KeepRates()


def test_an_overload_that_goes_on_is_one_whatever_was_read_before() -> None:
    rates = behind(KeepRates(), *[0] * 8, *[50 * look for look in range(RULE.history + RULE.looks)])
    assert rates.sources["clicks"] == 51 / 64


def test_rows_that_take_longer_are_an_overload_before_better_times_are_forgotten_and_a_pause_is_none() -> None:
    better = [480 - 50 * look for look in range(9)]
    longer = [80 + 50 * look for look in range(1, 18)]
    assert behind(KeepRates(), *better, *longer[:-1]) == KeepRates()
    assert behind(KeepRates(), *better, *longer).sources["clicks"] == 51 / 64
    paused = [80 + 250 * look for look in range(1, 4)] + [830 + 20 * look for look in range(1, 8)]
    assert behind(KeepRates(), *better, *paused) == KeepRates()


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
    memory = decided(RULE, memory, ONE, KeepRates())
    after = capped(ONE, memory).sources["clicks"]
    assert before < after <= before + 0.1 + 1 / 64


def test_a_loop_that_has_time_left_is_capped_no_more() -> None:
    full = looks(GuardMemory(), 1000.0, 800.0, worked=1.0)
    soon, later = (looks(full, 500.0, 1000.0, worked=0.6, seconds=seconds) for seconds in (4.0, 5.5))
    assert capped(ONE, decided(RULE, soon, ONE, KeepRates())).sources == {"clicks": 54 / 64}
    assert capped(ONE, decided(RULE, later, ONE, KeepRates())) == KeepRates()


def test_nothing_is_capped_any_more_once_nothing_waits_and_nothing_is_to_be_shed() -> None:
    """The loop works all the time, as it does where it takes what comes in small batches."""
    before = looks(GuardMemory(), 1000.0, 800.0, worked=1.0)
    for waits, rates, is_capped in (
        (90.0, KeepRates(), False),
        (110.0, KeepRates(), True),
        (90.0, KeepRates({"clicks": 0.9}), True),
    ):
        memory = before
        for look in range(RULE.history + 1):
            offered = 10_000 + 250.0 * look
            inputs = {"clicks": SourceInput(offered, offered - waits)}
            memory = looked(RULE, memory, ONE, 200.0 + look / 4, 1.0, inputs)
            if look < RULE.history:
                assert decided(RULE, memory, ONE, rates).caps
        assert bool(decided(RULE, memory, ONE, rates).caps) == is_capped


def test_a_controller_that_sheds_more_takes_over() -> None:
    memory = looks(GuardMemory(), 1000.0, 800.0, worked=1.0)
    memory = decided(RULE, memory, ONE, KeepRates({"clicks": 0.5}))
    assert memory.caps == {} and capped(ONE, memory) == KeepRates({"clicks": 0.5})
    assert capped(ONE, decided(RULE, memory, ONE, KeepRates())) == KeepRates()


def test_a_source_whose_queries_have_come_to_need_all_rows_is_capped_no_more() -> None:
    memory = looks(GuardMemory(), 1000.0, 600.0, worked=1.0)
    assert capped(ShedderQueries(), memory) == KeepRates()


TWO = ShedderQueries(
    {"clicks": ("hot", "totals")},
    {("parse", "hot"): ("hot",), ("parse", "totals"): ("totals",)},
    dict.fromkeys([("parse", "hot"), ("parse", "totals")], "clicks"),
    {"clicks": 0.5},
    {("parse", "hot"): 0.25, ("parse", "totals"): 0.5},
    {},
    {("parse", "hot"): 1.0, ("parse", "totals"): 1.0},
)


def test_where_one_query_is_at_its_minimum_the_other_makes_up_for_it() -> None:
    """1,000 rows/s are read, of which 0.25 and 0.75 go on; 1,250 come: 0.8 of each, and 0.25 stays what it is."""
    memory = GuardMemory(wanted=KeepRates({"clicks": 0.75}, {("parse", "hot"): 0.25}))
    for look in range(8):
        inputs = {"clicks": SourceInput(2_000 + 312.5 * look, 250.0 * look)}
        memory = looked(RULE, memory, TWO, 100.0 + look / 4, 1.0, inputs)
    assert capped(TWO, memory) == KeepRates({"clicks": 35 / 64}, {("parse", "hot"): 0.25})


def overloaded(shedders: ShedderQueries, consumed: float) -> KeepRates:
    """Return the rates after two seconds of 1,250 rows/s of which so many are read, all of them whole."""
    memory = GuardMemory()
    for look in range(8):
        inputs = {"clicks": SourceInput(2_000 + 312.5 * look, consumed / 4 * look)}
        memory = looked(RULE, memory, shedders, 100.0 + look / 4, 1.0, inputs)
    return capped(shedders, memory)


def test_the_query_of_the_least_priority_gives_way_first() -> None:
    """Of two rows that go on for each that comes there is room for 1.6, then for 1.04, then for 0.4."""
    apart = replace(TWO, branch_priority={("parse", "hot"): 1.0, ("parse", "totals"): 5.0})
    assert overloaded(apart, 1_000.0) == KeepRates({}, {("parse", "hot"): 38 / 64})
    assert overloaded(apart, 650.0) == KeepRates({"clicks": 50 / 64}, {("parse", "hot"): 0.25})
    assert overloaded(apart, 250.0) == KeepRates({"clicks": 0.5}, {("parse", "hot"): 0.25})
    swapped = replace(TWO, branch_priority={("parse", "hot"): 5.0, ("parse", "totals"): 1.0})
    assert overloaded(swapped, 1_000.0) == KeepRates({}, {("parse", "totals"): 38 / 64})


def test_what_is_behind_no_branch_has_at_least_what_a_branch_of_higher_priority_needs() -> None:
    below = replace(ONE, rest_priority={"clicks": 1.0}, branch_priority={EDGE: 5.0})
    assert overloaded(below, 1_000.0) == KeepRates({"clicks": 51 / 64})
    above = replace(ONE, rest_priority={"clicks": 5.0}, branch_priority={EDGE: 1.0})
    assert overloaded(above, 1_000.0) == KeepRates({}, {EDGE: 38 / 64})
