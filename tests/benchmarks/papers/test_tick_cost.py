"""The tick of a head: each policy decides on a made-up job, of which it sees what it needs, or says it does not."""

import pytest

from penstock.benchmarks.papers import tick_cost
from penstock.benchmarks.papers.made_up_job import PARALLELISM
from penstock.benchmarks.papers.tick_cost import NAMES, TickCost, TooSeldomError, main, measure
from penstock.engine.control.steering import OWNS

INSTANCES = 4 * PARALLELISM
BLIND, SELDOM = "memory-choice", "autoscaler"
SEEING = frozenset(OWNS) - {BLIND, SELDOM}
"""Of the policies that come with Penstock those that must decide here. Others may want what the made-up job lacks."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (BLIND, SELDOM)])
def test_a_policy_decides_on_what_it_has_measured(name: str) -> None:
    try:
        cost = measure(name, INSTANCES, decisions=2)
    except TooSeldomError:
        assert name not in SEEING
        return
    assert cost.instances == INSTANCES and cost.decided == 2
    assert not (name in SEEING and cost.is_blind)
    assert cost.reason and not cost.reason.startswith("0 sources")
    assert 0 < cost.quiet_ms <= cost.most_ms and cost.decides_ms <= cost.most_ms


def test_who_lacks_figures_is_blind_and_who_looks_too_seldom_is_not_timed() -> None:
    assert measure(BLIND, INSTANCES, decisions=1).is_blind
    with pytest.raises(TooSeldomError, match="autoscaler decided 0 times"):
        measure(SELDOM, INSTANCES, decisions=1)


def test_who_is_not_timed_has_a_line_that_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(name: str) -> TickCost:
        if name == SELDOM:
            raise TooSeldomError(f"{name} decided 0 times in 1200 s")
        return TickCost(name, 8, 1.0, 1.5, 0.5, 2.0, 6, "not measured: how far back state was used")

    monkeypatch.setattr(tick_cost, "measure", measured)
    assert main([SELDOM, BLIND]) == 0
    _, seldom, blind = capsys.readouterr().out.splitlines()
    assert seldom.split(maxsplit=1) == [SELDOM, "autoscaler decided 0 times in 1200 s"]
    assert blind.startswith(BLIND) and "not measured" in blind
