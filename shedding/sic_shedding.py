"""Shedding by SIC on one node, check by check: what waits and what was done in, records to drop out. Pure.

Overload detector, cost model and shedder are those of DISSP, sections 5.2 to 5.4. The input buffer is what waits in the
partitions that are read here: it was not decoded, and is dropped before it is. What queries may not lose is admitted
before a shedder chooses of the rest (docs/decisions/0113-what-waits-is-the-input-buffer.md).
"""

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.model.columns import Bools, Floats, Ints
from penstock.model.plan import Numbers
from penstock.shedding.balance_sic import CoordinatorReport, global_standing, local_standing
from penstock.shedding.cost_model import CostModel, IntervalHistory, QueryCosts, UsefulCost
from penstock.shedding.fair_shedder import FairShedder
from penstock.shedding.group_sums import running_sum, total
from penstock.shedding.later_batches import left_for_later
from penstock.shedding.overload import BufferHistory, BufferSize, Detector, MeanDetector, Overload, with_check
from penstock.shedding.shedders import (
    EqualShareShedder,
    FifoShedder,
    InputBuffer,
    RandomShedder,
    Rows,
    Shedder,
    Standing,
    whole_rows,
)
from penstock.shedding.sic_ledger import SicLedger

INTERVALS = 40
"""Shedding intervals in the source time window of 10 s."""

SHEDDERS: dict[str, Shedder] = {
    "fair": FairShedder(by_cost=True),
    "random": RandomShedder(),
    "fifo": FifoShedder(),
    "equal-share": EqualShareShedder(),
}
"""The shedders by name; all but the first are the baselines of the paper."""


@dataclass(frozen=True, slots=True)
class SicRule:
    """The parts that decide, each frozen."""

    shedder: Shedder = SHEDDERS["fair"]
    cost: CostModel = field(default_factory=UsefulCost)
    detector: Detector = field(default_factory=MeanDetector)


@dataclass(frozen=True, slots=True, eq=False)
class SicView:
    """What a check sees of a node since the one before.

    ``buffer`` has the records that wait, each partition once for each group of queries that it feeds; ``query`` in it
    is the row of the group. ``waited_ms``: how long nothing was decided on each of its batches; infinite where it must
    be now. ``minimum`` by group, in [0, 1]. ``arrived``, ``admitted`` and ``dropped`` are the SIC that
    came, that left the buffer for processing, and that left it otherwise; ``rows`` the records that were admitted,
    ``busy_ms`` useful time, all by group; ``elapsed_ms`` and ``worked_ms`` are those of the node.
    """

    buffer: InputBuffer
    waited_ms: Floats
    minimum: Floats
    arrived: Floats
    admitted: Floats
    dropped: Floats
    rows: Ints
    busy_ms: Floats
    elapsed_ms: float
    worked_ms: float
    report: CoordinatorReport | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SicMemory:
    """What is remembered between two checks; ``number`` counts them."""

    admitted: SicLedger
    arrived: SicLedger
    dropped: SicLedger
    costs: QueryCosts
    history: IntervalHistory = field(default_factory=IntervalHistory)
    sizes: BufferHistory = field(default_factory=BufferHistory)
    number: int = 0

    @classmethod
    def empty(cls, groups: int) -> "SicMemory":
        """Return the memory before the first check."""
        ledger = SicLedger.empty(INTERVALS, groups)
        return cls(ledger, ledger, ledger, QueryCosts.unknown(groups))


@dataclass(frozen=True, slots=True, eq=False)
class SicDecision:
    """The rows kept of each batch of the buffer; None: nothing is dropped.

    ``later``: the batches that are left as they are until a later check, of which no row is kept now. ``held_back``:
    minimums exceed the room.
    """

    rows_kept: Rows | None
    later: Bools
    reason: str
    numbers: Numbers = field(default_factory=dict)
    held_back: bool = False


def checked(
    rule: SicRule, memory: SicMemory, view: SicView, random: np.random.Generator
) -> tuple[SicDecision, SicMemory]:
    """Return what is dropped at a check, and the memory after it."""
    memory = replace(
        memory,
        admitted=memory.admitted.after(view.admitted),
        arrived=memory.arrived.after(view.arrived),
        dropped=memory.dropped.after(view.dropped),
        costs=memory.costs.after(view.busy_ms, view.rows),
        history=memory.history.after(view.elapsed_ms, view.worked_ms, int(view.rows.sum())),
        number=memory.number + 1,
    )
    waiting = BufferSize(int(view.buffer.rows.sum()))
    decision = rule.detector.detect(waiting, rule.cost.n_tuples(memory.history), memory.sizes)
    memory = replace(memory, sizes=with_check(memory.sizes, waiting, decision))
    if not isinstance(decision, Overload):
        nobody = np.zeros(len(view.buffer.rows), np.bool_)
        return SicDecision(None, nobody, decision.reason, decision.numbers), memory
    c_t_ms = rule.cost.tuple_cost_ms(memory.history)
    assert c_t_ms is not None
    cost = memory.costs.relative_to(c_t_ms)
    if view.report is None:
        standing = local_standing(memory.admitted, memory.arrived, np.zeros(len(cost)), cost)
    else:
        standing = global_standing(view.report, memory.number, memory.admitted, np.zeros(len(cost)), cost)
    later = left_for_later(view.buffer.rows * cost[view.buffer.query], view.waited_ms, decision.n_to_keep)
    now = np.flatnonzero(~later)
    buffer = InputBuffer(view.buffer.query[now], view.buffer.sic[now], view.buffer.rows[now])
    # Until the next check about as much is admitted as since the last one.
    admitted = memory.admitted.still_valid() + memory.admitted.last(1)
    reserved = reserved_rows(buffer, view.minimum, admitted, memory.dropped.still_valid())
    room = decision.n_to_keep - _work(reserved, buffer.query, cost, rule.shedder)
    rows_kept = np.zeros(len(later), np.int64)
    rows_kept[now] = reserved
    if room >= 1:
        rest = buffer.rows - reserved
        share = np.divide(rest, buffer.rows, out=np.zeros(len(rest)), where=buffer.rows > 0)
        kept_sic = total(buffer.sic * (1.0 - share), buffer.query, len(cost))
        left = InputBuffer(buffer.query, buffer.sic * share, rest)
        stands = Standing(standing.proj + kept_sic, standing.norm, standing.cost)
        rows_kept[now] += rule.shedder.load_shed(left, int(room), stands, random)
    return SicDecision(rows_kept, later, decision.reason, decision.numbers, held_back=room < 0), memory


def reserved_rows(buffer: InputBuffer, minimum: Floats, admitted: Floats, dropped: Floats) -> Rows:
    """Return the rows of each batch that its group may not lose, the last arrivals first to be lost.

    minimum * (admitted + all that is dropped) <= admitted, of what leaves the buffer in the window
      admitted  SIC by group in the window that ends with the next check, as far as it is known
      dropped   SIC by group in it up to now

    What waits and is to be kept does not count: it may wait for long, and meanwhile as much would be dropped again at
    each check.
    """
    waiting = total(buffer.sic, buffer.query, len(minimum))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Without a minimum any number may go, also while nothing was admitted.
        allowed = np.where(minimum > 0.0, (1.0 - minimum) / minimum * admitted, np.inf)
    least = np.clip(waiting - np.maximum(0.0, allowed - dropped), 0.0, waiting)
    # A minimum of 1 keeps all, whatever rounding does to sums.
    least[minimum >= 1.0] = np.inf
    by_group = np.argsort(buffer.query, kind="stable")
    sic, rows = buffer.sic[by_group], buffer.rows[by_group]
    before = running_sum(sic, buffer.query[by_group])
    need = least[buffer.query[by_group]] - before
    share = np.divide(need, sic, out=np.where(need > 0, np.inf, 0.0), where=sic > 0)
    reserved = np.empty_like(buffer.rows)
    reserved[by_group] = whole_rows(np.ceil(np.clip(share, 0.0, 1.0) * rows - 1e-6), rows)
    return reserved


def _work(rows: Rows, group: Ints, cost: Floats, shedder: Shedder) -> float:
    """Return the room that rows take, in the unit of the shedder."""
    by_cost = isinstance(shedder, FairShedder) and shedder.by_cost
    return float((rows * cost[group]).sum()) if by_cost or isinstance(shedder, EqualShareShedder) else float(rows.sum())
