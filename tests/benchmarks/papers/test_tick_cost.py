"""The tick of a head: each policy decides on a made-up job, of which it sees all that it needs."""

import pytest

from penstock.benchmarks.papers.made_up_job import PARALLELISM
from penstock.benchmarks.papers.tick_cost import BLIND, NAMES, measure
from penstock.engine.control.policies import POLICIES

INSTANCES = 4 * PARALLELISM


def test_all_policies_that_look_on_their_own_are_timed_or_said_to_be_blind() -> None:
    assert set(NAMES) | BLIND | {"placement"} == set(POLICIES)


def test_who_is_said_to_be_blind_is() -> None:
    assert {"autoscaler", "memory-choice"} == BLIND
    assert measure("memory-choice", INSTANCES, decisions=1).reason.startswith("not measured")
    with pytest.raises(ValueError, match="autoscaler decided 0 times"):
        measure("autoscaler", INSTANCES, decisions=1)


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_decides_on_what_it_has_measured(name: str) -> None:
    cost = measure(name, INSTANCES, decisions=2)
    assert cost.instances == INSTANCES and cost.decided == 2
    assert cost.reason and not cost.reason.startswith(("not measured", "0 sources"))
    assert 0 < cost.quiet_ms <= cost.most_ms and cost.decides_ms <= cost.most_ms
