"""The CPU that a task manager's process may use: its loop rests as soon as it has used more."""

import pytest

from penstock.engine.executors.managers.cpu_share import CpuShare

MS = 1_000_000


def used(share: CpuShare, step_ms: float, seconds: float = 20.0, idle_ms: float = 0.0) -> float:
    """Return how much CPU a loop used a second, that does steps of so long, and waits as it is told to."""
    now_ns = cpu_ns = 0
    while now_ns < seconds * 1e9:
        if rest_ns := share.rest_ns(now_ns, cpu_ns):
            now_ns += rest_ns
            continue
        cpu_ns += int(step_ms * MS)
        now_ns += int((step_ms + idle_ms) * MS)
    return cpu_ns / now_ns


@pytest.mark.parametrize("cores", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("step_ms", [0.1, 5.0, 150.0])
def test_a_loop_that_never_waits_uses_its_share(cores: float, step_ms: float) -> None:
    share = CpuShare()
    share.set(cores, 0, 0)
    assert used(share, step_ms) == pytest.approx(cores, rel=0.06)


def test_a_loop_that_uses_less_never_rests() -> None:
    share = CpuShare()
    share.set(0.5, 0, 0)
    now_ns = cpu_ns = 0
    for _ in range(1_000):
        assert share.rest_ns(now_ns, cpu_ns) == 0
        cpu_ns, now_ns = cpu_ns + 4 * MS, now_ns + 10 * MS


def test_what_was_not_used_is_soon_gone() -> None:
    share = CpuShare()
    share.set(0.5, 0, 0)
    assert share.rest_ns(60_000 * MS, 0) == 0
    # After a minute of rest no more than half a second can be used at once.
    assert share.rest_ns(60_600 * MS, 600 * MS) == 0
    assert share.rest_ns(61_200 * MS, 1_200 * MS) > 0


def test_a_checkpoint_makes_nobody_rest_that_had_some_to_spare() -> None:
    share = CpuShare()
    share.set(0.32, 0, 0)
    for second in range(60):
        assert share.rest_ns(second * 1_000 * MS, second * 250 * MS) == 0
    # A quarter of a second more at once, and then as before.
    for second in range(60, 120):
        assert share.rest_ns(second * 1_000 * MS, (second * 250 + 250) * MS) == 0


def test_without_a_bound_nothing_rests_and_a_bound_may_change() -> None:
    share = CpuShare()
    assert not share.is_bounded and share.rest_ns(0, 10**12) == 0
    share.set(0.2, 0, 0)
    assert used(share, 5.0) == pytest.approx(0.2, rel=0.06)
    share.set(None, 0, 0)
    assert share.rest_ns(0, 10**12) == 0


def test_what_it_took_to_get_ready_is_none_of_the_share() -> None:
    share = CpuShare()
    share.set(0.2, 0, 0)
    share.forgive(5_000 * MS, 4_000 * MS)
    assert share.rest_ns(5_000 * MS, 4_000 * MS) == 0
    # From then on it counts: 40 ms are more than the 20 ms that may be used at once.
    assert share.rest_ns(5_040 * MS, 4_040 * MS) > 0
