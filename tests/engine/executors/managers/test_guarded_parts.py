"""What a task manager hosts is guarded between two decisions of the head's controllers."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from penstock.engine.control.job_control import KeepOrder
from penstock.engine.control.local_guard import GUARD_NS
from penstock.engine.dataflow.build import Build
from penstock.engine.executors.managers.adoption_messages import SetKeep
from penstock.engine.executors.managers.deployed_parts import DeployedPart, DeployedParts
from penstock.engine.plan.free_edges import Routes
from penstock.model.keep_rates import KeepRates
from penstock.shedding.keep_settings import ShedderQueries

PLAN = cast("Any", SimpleNamespace(graph=None))
SHEDDERS = ShedderQueries({"rows": ("q",)}, {}, {}, {"rows": 0.25}, {}, {"rows": 1.0})


@dataclass
class Spent:
    busy_ns: float


@dataclass
class FullPart:
    """A source that is offered 4,000 rows/s and reads 1,000, in a loop that is always busy."""

    now_ns: int = 0
    name: str = "rows"
    rates: list[KeepRates] = field(default_factory=list)
    graph: None = None
    owners: dict[Any, Any] = field(default_factory=dict)

    @property
    def instances(self) -> list[Any]:
        return [self]

    @property
    def accounting(self) -> "FullPart":
        return self

    def spent(self, now_ns: int) -> Spent:
        return Spent(now_ns)

    def heads(self) -> list[Any]:
        return [self]

    def logs(self) -> list[tuple[str, int, int, int]]:
        taken = self.now_ns // 1_000_000
        return [("0", taken, 3 * taken, 4 * taken)]

    def set_keep(self, rates: KeepRates) -> None:
        self.rates.append(rates)

    def set_routes(self, routes: Routes) -> None:
        """There is nothing that goes to any instance."""


def parts_of(part: FullPart) -> DeployedParts:
    parts = DeployedParts()
    parts.add(1, DeployedPart(0, frozenset(), cast("Build", part), PLAN, 0))
    return parts


def looked_at(parts: DeployedParts, part: FullPart, looks: int) -> None:
    for _ in range(looks):
        part.now_ns += GUARD_NS
        parts.look(part.now_ns)


def test_rates_sink_between_decisions_and_never_below_the_minimum() -> None:
    part = FullPart()
    parts = parts_of(part)
    order = KeepOrder(KeepRates(), frozenset(), SHEDDERS)
    parts.hear(SetKeep.of(order.rates, order))
    looked_at(parts, part, 30)
    assert part.rates[0] == KeepRates()
    assert part.rates[-1] == KeepRates({"rows": 0.25})
    kept = parts.keep_now()
    assert kept is not None and kept.rates() == KeepRates({"rows": 0.25})


def test_sources_that_are_kept_whole_and_rates_without_a_decision_are_not_guarded() -> None:
    part = FullPart()
    parts = parts_of(part)
    parts.hear(SetKeep.of(KeepRates({"rows": 0.5})))
    looked_at(parts, part, 30)
    assert part.rates == [KeepRates({"rows": 0.5})]
    order = KeepOrder(KeepRates(), frozenset({"rows"}), SHEDDERS)
    parts.hear(SetKeep.of(order.rates, order))
    looked_at(parts, part, 30)
    assert part.rates[1:] == [KeepRates()]


def test_what_was_lowered_rises_slowly_and_at_once_when_shedding_is_switched_off() -> None:
    part = FullPart()
    parts = parts_of(part)
    order = KeepOrder(KeepRates(), frozenset(), SHEDDERS)
    parts.hear(SetKeep.of(order.rates, order))
    looked_at(parts, part, 30)
    parts.hear(SetKeep.of(order.rates, order))
    assert part.rates[-1].sources["rows"] <= 0.375
    off = KeepOrder(KeepRates(), frozenset({"rows"}), SHEDDERS)
    parts.hear(SetKeep.of(off.rates, off))
    assert part.rates[-1] == KeepRates()


def test_a_part_that_comes_later_sheds_as_the_others_do() -> None:
    part, later = FullPart(), FullPart()
    parts = parts_of(part)
    order = KeepOrder(KeepRates(), frozenset(), SHEDDERS)
    parts.hear(SetKeep.of(order.rates, order))
    looked_at(parts, part, 30)
    parts.add(2, DeployedPart(0, frozenset(), cast("Build", later), PLAN, 0))
    assert later.rates == [KeepRates({"rows": 0.25})]


def test_a_guard_elsewhere_knows_the_minimums_and_priorities_of_what_is_behind_a_source() -> None:
    edge = ("parse", "hot")
    shedders = ShedderQueries(
        {"rows": ("hot", "q")},
        {edge: ("hot",)},
        {edge: "rows"},
        {"rows": 0.5},
        {edge: 0.25},
        {"rows": 5.0},
        {edge: 2.0},
    )
    order = SetKeep.of(KeepRates(), KeepOrder(KeepRates(), frozenset(), shedders)).order()
    assert order is not None and order.shedders.parts("rows") == shedders.parts("rows")
    assert {(part.edge, part.priority) for part in shedders.parts("rows")} == {(edge, 2.0), (None, 5.0)}
