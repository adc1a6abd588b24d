"""Policies of tests: they do what a script says, or nothing."""

from dataclasses import dataclass

from penstock.benchmarks.papers.cluster_model.loop import Scheduled
from penstock.model.plan import Decision, NoChange
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot


@dataclass(frozen=True)
class Scripted(Policy[int]):
    """Decides what comes next in its list, then nothing; remembers how often it was asked."""

    decisions: tuple[Decision, ...] = ()

    def start(self) -> int:
        return 0

    def decide(self, snapshot: ClusterSnapshot, memory: int) -> tuple[Decision, int]:
        if memory < len(self.decisions):
            return self.decisions[memory], memory + 1
        return NoChange("the script is over"), memory + 1


def scripted(*decisions: Decision, period_s: float = 5.0, name: str = "script") -> Scheduled:
    return Scheduled(name, Scripted(decisions), period_s)
