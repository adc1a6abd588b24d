"""The last decisions of a job's controllers, as people are told of them."""

from dataclasses import replace

from penstock.engine.control.recent_decisions import KEPT, RecentDecisions
from penstock.model.scaling_status import ScalingStatus
from penstock.model.shedding_status import SheddingStatus

SECOND_NS = 1_000_000_000
GROW = ScalingStatus("ds2", "act", "more comes", (("count", 1, 2),), "begun")


def said(recent: RecentDecisions, now_s: int = 100) -> list[str]:
    return [f"{item.ago_s:g} {item.sentence()}" for item in recent.last(now_s * SECOND_NS)]


def test_a_decision_has_what_why_and_what_became_of_it() -> None:
    recent = RecentDecisions()
    recent.scaled(0, None)
    recent.scaled(0, replace(GROW, wanted=(), outcome="", reason="nothing lags"))
    assert said(recent) == []
    recent.scaled(10 * SECOND_NS, GROW)
    recent.scaled(11 * SECOND_NS, replace(GROW, outcome="applied", changes=1))
    assert said(recent) == ["90 ds2: 2 instances of count (now 1), applied; more comes"]
    held = replace(GROW, wanted=(), outcome="", withheld="it settles for 12 s more")
    recent.scaled(20 * SECOND_NS, held)
    recent.scaled(30 * SECOND_NS, replace(held, withheld="it settles for 2 s more"))
    assert said(recent)[1:] == ["80 ds2: no more, withheld: it settles for 2 s more; more comes"]


def test_few_of_each_policy_are_kept_in_order() -> None:
    recent = RecentDecisions()
    recent.placed(0, "placement", {}, "nothing waits")
    recent.placed(0, "placement", {f"count[{number}]": "tm-0" for number in range(6)}, "6 of 6 that wait are placed")
    for second in range(1, 10):
        recent.scaled(second * SECOND_NS, replace(GROW, wanted=(("count", 1, 1 + second),)))
    shown = said(recent)
    placed = "count[0] at tm-0, count[1] at tm-0, count[2] at tm-0, count[3] at tm-0, and 2 more"
    assert shown[0] == f"100 placement: {placed}; 6 of 6 that wait are placed"
    assert [line.partition(" ")[0] for line in shown[1:]] == ["93", "92", "91"] and len(shown) == 1 + KEPT


def test_keep_rates_are_told_once_they_differ_and_moves_beside_them() -> None:
    recent = RecentDecisions()
    whole = SheddingStatus("qod", "act", "nothing waits", applied=True)
    recent.shed(0, whole)
    assert said(recent) == []
    less = replace(whole, sources=(("rides", 0.75),), reason="1 of 1 queries shed")
    expected = [{"subject": "job/count/0", "figure": "on tm-1", "before": 0.0, "after": 1.0}]
    for second in (10, 20):
        recent.moved(second * SECOND_NS, "qod", {"moves": {"expected": expected}}, "1 of 1 queries shed")
        recent.shed(second * SECOND_NS, less)
    recent.moved(30 * SECOND_NS, "qod", {}, "nothing waits")
    recent.shed(30 * SECOND_NS, whole)
    assert said(recent) == [
        "90 qod: job/count/0 on tm-1; 1 of 1 queries shed",
        "90 qod: keep rides 75%, applied; 1 of 1 queries shed",
        "70 qod: keep all, applied; nothing waits",
    ]
