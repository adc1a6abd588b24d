"""What is slow and no core: a job behind it keeps a steady rate or holds its source back; guard and policy never swing.

The model of `simulated_stream`, in the loop with load shedding and the guard as they are, in 20 cycles after settling.
"""

from collections.abc import Callable

import numpy as np
import pytest

from tests.engine.control.simulated_stream import SimulatedStream

ROW_S = 1e-3
SETTLE, LOOK = 20, 20
"""Cycles in which it settles, and in which it is looked at."""

STEADY = 2 / 64
"""The dead band of rates."""


def rates_after_settling(stream: SimulatedStream, rate: float) -> list[float]:
    for _ in range(SETTLE):
        stream.cycle(rate)
    return [stream.cycle(rate) for _ in range(LOOK)]


def flushes(every_s: float, for_s: float, slowly: float) -> Callable[[float], float]:
    """Return rates of a disk that writes much at times, and takes so many rows/s meanwhile, else any number."""
    return lambda passed_s: slowly if passed_s % every_s < for_s else 1e9


@pytest.mark.parametrize(("share", "overload"), [(0.2, 3.0), (0.8, 1.1)])
def test_a_slow_sink_holds_its_source_back(share: float, overload: float) -> None:
    """It takes this share of what the loop could: rows wait for it, and none are dropped for that."""
    stream = SimulatedStream(ROW_S, sink_rate=share / ROW_S)
    assert set(rates_after_settling(stream, overload * share / ROW_S)) == {1.0}
    assert stream.lag > 0


@pytest.mark.parametrize(("every_s", "for_s"), [(5.0, 0.5), (3.0, 0.5), (2.0, 0.25), (5.0, 1.0)])
@pytest.mark.parametrize("load", [0.7, 1.5, 3.0])
def test_a_slow_disk_that_blocks_the_loop_ends_in_the_rate_that_it_leaves(
    every_s: float, for_s: float, load: float
) -> None:
    """It stands still for a while, in step with cycles or not: a cycle more or less of these is all that rates show."""
    stream = SimulatedStream(ROW_S, sink_rate=flushes(every_s, for_s, 100.0), blocks=True)
    rate = load / ROW_S
    keeps = rates_after_settling(stream, rate)
    left = min(1.0, (1.0 - for_s / every_s) / load)
    assert left * 0.9 - STEADY <= min(keeps) and max(keeps) <= left * 1.1 + STEADY, keeps
    assert stream.lag <= rate


@pytest.mark.parametrize(("every_s", "for_s"), [(7.0, 1.0), (10.0, 2.0), (12.0, 1.5)])
@pytest.mark.parametrize("load", [0.5, 0.7])
def test_nothing_is_shed_for_a_pause_after_which_the_loop_catches_up(every_s: float, for_s: float, load: float) -> None:
    stream = SimulatedStream(ROW_S, sink_rate=flushes(every_s, for_s, 100.0), blocks=True)
    assert set(rates_after_settling(stream, load / ROW_S)) == {1.0}


@pytest.mark.parametrize(("blocks", "load"), [(True, 0.8), (True, 1.5), (True, 3.0), (False, 0.8), (False, 1.5)])
def test_a_slow_remote_call_ends_in_a_steady_rate_or_a_source_held_back(blocks: bool, load: float) -> None:
    """A service answers 50 calls at a time, or one if it blocks, and takes twice as long from the middle on."""
    at_once, latency_s = (1, 0.001) if blocks else (50, 0.08)

    def answered(passed_s: float) -> float:
        return at_once / (latency_s * (2.0 if passed_s > SETTLE * 5.0 else 1.0))

    stream = SimulatedStream(ROW_S, sink_rate=answered, blocks=blocks)
    rate = load * 500.0
    for _ in range(SETTLE):
        stream.cycle(rate)
    keeps = rates_after_settling(stream, rate)
    assert np.ptp(keeps) <= STEADY, keeps
    if blocks:
        # A row takes a millisecond of the loop, and two of the service.
        assert keeps[-1] == pytest.approx(min(1.0, 1.0 / (0.003 * rate)), abs=0.04)
    else:
        assert set(keeps) == {1.0} and stream.lag > 0
