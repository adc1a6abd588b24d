"""Merged watermarks against their definition: the least time of all inputs that are not idle, and never less."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.core.watermark import RisingTimes, WatermarkMerge

TIMES = st.integers(-20, 20) | st.sampled_from([START_OF_TIME_US, END_OF_TIME_US])


@given(
    st.integers(1, 5), st.lists(st.tuples(st.sampled_from(["advance", "idle", "active", "add"]), TIMES), max_size=60)
)
def test_a_merge_is_the_least_time_of_what_counts(inputs: int, events: list[tuple[str, int]]) -> None:
    merge = WatermarkMerge(inputs)
    times, idle = [START_OF_TIME_US] * inputs, [False] * inputs
    merged_us = START_OF_TIME_US
    for number, (what, time_us) in enumerate(events):
        index = (time_us + number) % len(times)
        advanced = None
        match what:
            case "advance":
                times[index], idle[index] = max(times[index], time_us), False
                advanced = merge.advance(index, time_us)
            case "idle":
                idle[index] = True
                advanced = merge.set_idle(index)
            case "active":
                idle[index] = False
                merge.set_active(index)
            case "add":
                assert merge.add() == len(times)
                times.append(START_OF_TIME_US)
                idle.append(True)
        if advanced is not None:
            before_us = merged_us
            merged_us = max(
                merged_us, min((at for at, out in zip(times, idle, strict=True) if not out), default=merged_us)
            )
            assert advanced == (merged_us > before_us)
        open_inputs = [out for at, out in zip(times, idle, strict=True) if at != END_OF_TIME_US]
        assert merge.time_us == merged_us
        assert merge.idle == (bool(open_inputs) and all(open_inputs))


@given(st.integers(1, 5), st.lists(TIMES, max_size=60))
def test_the_least_of_rising_times(count: int, rises: list[int]) -> None:
    rising, times = RisingTimes(count), [START_OF_TIME_US] * count
    for number, time_us in enumerate(rises):
        index = (7 * number + time_us) % count
        times[index] = max(times[index], time_us)
        rising.rise(index, time_us)
        assert rising.least_us == min(times)
