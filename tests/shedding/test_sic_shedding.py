"""Shedding by SIC on one node, check by check, on a loop of known speed."""

from collections.abc import Sequence

import numpy as np
import pytest

from penstock.model.columns import Floats
from penstock.shedding.shedders import InputBuffer
from penstock.shedding.sic import jain_index
from penstock.shedding.sic_shedding import SHEDDERS, SicMemory, SicRule, SicView, checked, reserved_rows

QUERIES = 20
RATES = np.linspace(100, 1_000, QUERIES)
COSTS_MS = np.linspace(0.02, 0.4, QUERIES)[np.random.default_rng(5).permutation(QUERIES)]


class Node:
    """Queries of different rates and costs, offered ``load`` times what the node can take."""

    def __init__(self, shedder: str, load: float, minimum: Sequence[float] = (0.0,) * QUERIES) -> None:
        self.rule = SicRule(SHEDDERS[shedder])
        self.memory = SicMemory.empty(QUERIES)
        self.minimum = np.array(minimum, np.float64)
        self.arriving = RATES * load * 250.0 / float((RATES * COSTS_MS).sum())
        self.sic = 1.0 / (self.arriving * 40)
        self.random = np.random.default_rng(1)
        self.waiting, self.admitted, self.generated = np.zeros(QUERIES), np.zeros(QUERIES), np.zeros(QUERIES)
        self.left, self.waited_ms, self.reads = np.zeros(QUERIES), np.zeros(QUERIES), 0
        self.busy_ms, self.dropped, self.held_back = 0.0, 0, False
        self.worked, self.before, self.lost = 0.0, np.zeros(QUERIES), np.zeros(QUERIES)

    def interval(self) -> None:
        """Let rows come, be processed as far as time goes, and be checked."""
        came = self.random.poisson(self.arriving)
        self.waiting += came
        self.generated += came * self.sic
        # The loop gives all instances equal time, as rows of each wait.
        left_ms, done, active = 250.0, np.zeros(QUERIES), self.left > 0
        while left_ms > 0.5 and active.any():
            share = np.minimum(left_ms / active.sum(), (self.left - done) * COSTS_MS) * active
            done += share / COSTS_MS
            left_ms -= float(share.sum())
            active = self.left - done > 1e-3
        rows = np.floor(done + 1e-6)
        arrived = self.waiting - self.before
        self.waiting -= rows
        busy = rows * COSTS_MS
        self.worked += float(busy.sum())
        buffer = InputBuffer(np.arange(QUERIES, dtype=np.int32), self.waiting * self.sic, self.waiting.astype(np.int64))
        view = SicView(
            buffer,
            self.waited_ms,
            self.minimum,
            np.maximum(0.0, arrived) * self.sic,
            rows * self.sic,
            self.lost * self.sic,
            rows.astype(np.int32),
            busy,
            250.0,
            float(busy.sum()),
        )
        decision, self.memory = checked(self.rule, self.memory, view, self.random)
        self.held_back = decision.held_back
        kept = self.waiting if decision.rows_kept is None else np.minimum(decision.rows_kept, self.waiting)
        assert not (decision.later & (self.waited_ms >= 1_000.0)).any()
        self.waited_ms = np.where(decision.later, self.waited_ms + 250.0, 0.0)
        kept = np.where(decision.later, self.waiting, kept)
        self.lost = self.waiting - kept
        self.dropped += int(self.lost.sum())
        self.waiting = kept.astype(np.float64)
        self.left, self.before = np.where(decision.later, 0.0, self.waiting), self.waiting.copy()
        self.reads += int((self.left > 0).sum())
        self.admitted += rows * self.sic

    def run(self, intervals: int) -> Floats:
        """Return what each query has got in the second half, as a share of what came."""
        for _ in range(intervals // 2):
            self.interval()
        before, came, self.worked = self.admitted.copy(), self.generated.copy(), 0.0
        for _ in range(intervals // 2):
            self.interval()
        return (self.admitted - before) / (self.generated - came)


def test_at_twice_the_capacity_all_queries_stand_equally() -> None:
    fair, node = {}, {}
    for name in ("fair", "random", "fifo", "equal-share"):
        node[name] = Node(name, 2.0)
        fair[name] = node[name].run(240)
    assert jain_index(fair["fair"]) >= 0.99
    assert np.std(fair["fair"]) <= 0.2 * np.std(fair["random"])
    assert jain_index(fair["fair"]) > jain_index(fair["equal-share"])
    assert jain_index(fair["fair"]) > jain_index(fair["fifo"])
    assert node["fair"].worked >= 0.95 * 120 * 250.0
    # What little waits of many queries is left until it is worth a read.
    assert node["fair"].reads <= 0.75 * 240 * QUERIES


def test_below_its_capacity_nothing_is_dropped() -> None:
    node = Node("fair", 0.7)
    node.run(160)
    assert node.dropped == 0


def test_no_query_falls_below_its_minimum() -> None:
    minimum = np.zeros(QUERIES)
    minimum[3], minimum[7] = 1.0, 0.8
    node = Node("fair", 2.0, minimum.tolist())
    share = node.run(240)
    assert share[3] >= 0.99
    assert share[7] >= 0.79
    assert not node.held_back
    assert np.delete(share, [3, 7]).max() < 0.7


def test_minimums_that_cannot_be_met_hold_sources_back() -> None:
    node = Node("fair", 2.0, [0.9] * QUERIES)
    node.run(80)
    assert node.held_back
    # What nobody may lose waits, and of what has left no more than a tenth was dropped, however long that takes.
    assert node.waiting.sum() > node.arriving.sum()
    left = (node.generated / node.sic).sum() - node.waiting.sum()
    assert node.dropped <= 0.11 * left


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_may_not_be_lost_are_reserved(seed: int) -> None:
    random = np.random.default_rng(seed)
    groups, batches = 4, 30
    query = random.integers(0, groups, batches).astype(np.int32)
    rows = random.integers(0, 50, batches)
    sic = rows * random.uniform(0.1, 1.0, groups)[query]
    minimum = np.array([0.0, 0.4, 0.8, 1.0])
    waiting = np.bincount(query, sic, groups)
    admitted = random.uniform(0.0, 2.0, groups) * waiting
    dropped = random.uniform(0.0, 1.0, groups) * admitted * (1.0 - minimum)
    reserved = reserved_rows(InputBuffer(query, sic, rows), minimum, admitted, dropped)
    assert ((reserved >= 0) & (reserved <= rows)).all()
    assert (reserved[query == 0] == 0).all() and (reserved[query == 3] == rows[query == 3]).all()
    lost = dropped + waiting - np.bincount(query, sic * reserved / np.maximum(rows, 1), groups)
    assert (admitted >= minimum * (admitted + lost) - 1e-6).all()
