"""Scalers of one job take turns: one that looks often leaves room for one that looks seldom."""

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import ApplicationSize, NoChange, RescalePlan, TaskSize
from penstock.scheduler.control_loop import ControlLoop, Steering
from penstock.scheduler.loop_state import LoopDecision, LoopState, ended
from penstock.scheduler.ownership import Level, Resource, Role
from tests.papers_cases import cases
from tests.scheduler.hostile_cases import job
from tests.scheduler.test_control_loop import APPLICATION, SCALES, steering

SIZES = {
    "tasks": (SCALES, RescalePlan("more", (TaskSize(1, 3),))),
    "memory": (
        Role(Level.SIZE, frozenset({Resource.TASK_MEMORY})),
        RescalePlan("more memory", (TaskSize(2, 2, managed_bytes=200_000_000),)),
    ),
    "whole": (
        Role(Level.APPLICATION, frozenset({Resource.ALLOCATIONS})),
        RescalePlan("fewer cores", applications=(ApplicationSize(0, cores=3.0),)),
    ),
}
"""Policies that own different things, and what each wants to do at all times."""


@dataclass
class Shown:
    """A loop as the shell of a job turns it, once a second: each policy sees what was since its last look."""

    loop: ControlLoop
    takes_s: int
    state: LoopState
    now_s: float = 1000.0
    looked_s: dict[str, float] = field(default_factory=dict)
    ends_s: float = 0.0

    def tick(self) -> list[LoopDecision]:
        self.now_s += 1.0
        if self.state.busy and self.now_s >= self.ends_s:
            self.state = ended(self.state, APPLICATION, self.now_s, is_done=False)
        decided: list[LoopDecision] = []
        for name in self.loop.due(self.state, self.now_s):
            window_s = self.now_s - self.looked_s.get(name, 1000.0)
            self.looked_s[name] = self.now_s
            seen = {name: job(int(self.now_s), self.now_s, window_s)}
            decisions, _, self.state = self.loop.tick(seen, self.now_s, self.state)
            decided += decisions
            if any(decision.acts for decision in decisions):
                self.ends_s = self.now_s + self.takes_s
        return decided


def shown(every_s: dict[str, float], cool_down_s: float, takes_s: int) -> Shown:
    items = tuple(steering(name, *SIZES[name], every_s=every_s[name]) for name in every_s)
    loop = ControlLoop(items, acts=True, cool_down_s=cool_down_s)
    return Shown(loop, takes_s, loop.start(1000.0))


def test_one_that_looks_seldom_gets_its_turn_and_the_other_one_says_why_it_waits() -> None:
    run = shown({"tasks": 5.0, "whole": 60.0}, 30.0, 2)
    decided, reasons = list[LoopDecision](), set[str]()
    for _ in range(900):
        decided += run.tick()
        reasons.add(run.loop.goes_first("tasks", run.now_s, run.state).rpartition(" for ")[0])
    acted = [decision.policy for decision in decided if decision.acts]
    runs = [(name, len(list(own))) for name, own in groupby(acted)]
    assert acted.count("whole") >= 4 and all(count <= 2 for _, count in runs[1:]), acted
    assert reasons == {"", "whole goes first, which has waited"}
    # Who lets another go first decides nothing, so that it remembers nothing which is not done.
    assert not [item for decision in decided for item in decision.withheld]


@given(
    every_s=st.dictionaries(st.sampled_from(sorted(SIZES)), st.integers(5, 60).map(float), min_size=2),
    cool_down_s=st.integers(1, 60),
    takes_s=st.integers(1, 30),
)
@settings(max_examples=cases(), deadline=None)
def test_none_waits_for_more_than_one_action_of_each_other(
    every_s: dict[str, float], cool_down_s: int, takes_s: int
) -> None:
    run = shown(every_s, float(cool_down_s), takes_s)
    met: dict[str, Counter[str]] = {}
    # Nothing stands still either: after a cool-down it takes until each has a whole window behind it.
    longest_s = takes_s + cool_down_s + 2 * max(every_s.values()) + 2
    acted_s = run.now_s
    while run.now_s < 1500.0:
        for name in [decision.policy for decision in run.tick() if decision.acts]:
            acted_s = run.now_s
            met.pop(name, None)
            for others in met.values():
                others[name] += 1
        for name in run.state.waits_s:
            met.setdefault(name, Counter())
        assert all(count == 1 for others in met.values() for count in others.values()), met
        assert run.now_s - acted_s <= longest_s


def test_one_that_looks_no_more_is_not_waited_for() -> None:
    run = shown({"tasks": 10.0, "whole": 60.0}, 30.0, 2)
    while "whole" not in run.state.waits_s:
        run.tick()
    acted = 0
    for _ in range(600):
        # It does not know what others have of the quota, as it were.
        run.state = replace(run.state, due_s={**run.state.due_s, "whole": min(run.state.due_s["whole"], run.now_s)})
        run.now_s += 1.0
        if run.state.busy and run.now_s >= run.ends_s:
            run.state = ended(run.state, APPLICATION, run.now_s, is_done=False)
        if run.now_s >= run.state.due_s["tasks"]:
            seen = {"tasks": job(int(run.now_s), run.now_s, 10.0)}
            decisions, _, run.state = run.loop.tick(seen, run.now_s, run.state)
            acted += sum(decision.acts for decision in decisions)
            run.ends_s = run.now_s + 2
    assert acted >= 600 / (60 + 50)


def test_who_wants_nothing_has_had_its_turn() -> None:
    idle = steering("whole", SIZES["whole"][0], NoChange("it has what it needs"), every_s=60.0)
    busy: Steering = steering("tasks", *SIZES["tasks"], every_s=5.0)
    loop = ControlLoop((busy, idle), acts=True, cool_down_s=30.0)
    run = Shown(loop, 2, loop.start(1000.0))
    decided = [decision for _ in range(900) for decision in run.tick()]
    assert sum(decision.acts for decision in decided) >= 6
