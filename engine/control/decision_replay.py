"""Decides again on what a log has kept: the same policy must decide the same, another may differ.

Called by ``penstock decide``; pure but for reading the log (docs/design/controllers.md 4).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.engine.control.decision_outcomes import DecisionOutcome, outcomes_of
from penstock.engine.control.policies import POLICIES, make_policy
from penstock.engine.control.recorded_windows import in_windows, is_of_a_head
from penstock.engine.control.steering import OF_A_JOB, steering
from penstock.model.errors import OptionError
from penstock.model.plan import Decision, as_dict
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_log import GOES_ON, ActionLogError, EntryKind, read_log, snapshot_of
from penstock.scheduler.guarded import over_another_plan


@dataclass(frozen=True, slots=True)
class Redecided:
    """A decision on a recorded snapshot; ``recorded`` is what the log has of the same policy, None if nothing.

    ``outcome`` is what became of the recorded one.
    """

    snapshot: ClusterSnapshot
    decision: Decision
    recorded: Mapping[str, Any] | None
    outcome: DecisionOutcome | None = None

    @property
    def same(self) -> bool | None:
        """True if it is the recorded one; None: none was recorded."""
        return None if self.recorded is None else plain(self.decision) == self.recorded


def plain(decision: Decision) -> Any:
    """Return a decision as it comes out of a log."""
    return json.loads(json.dumps(as_dict(decision)))


def only_policy(path: Path) -> str:
    """Return the name of the policy whose decisions a log has.

    Raises:
        LogError: the log cannot be read; it names the line.
        OptionError: it has decisions of none, or of several, which are named.
    """
    names = sorted({str(entry.content["policy"]) for entry in read_log(path) if entry.kind is EntryKind.POLICY})
    if len(names) != 1:
        decisions = f"{path} has decisions of {', '.join(names)}" if names else f"{path} has no policy's decisions"
        raise OptionError(f"{decisions}; say with --policy who decides: {', '.join(names or sorted(POLICIES))}")
    return names[0]


def redecide(path: Path, name: str, changes: Mapping[str, Any]) -> Iterator[Redecided]:
    """Yield what a policy decides on a log's snapshots, with its recorded parameters but for ``changes``.

    It sees the snapshots that it saw then, forgets where it was started again then, and goes on over another plan of
    the job as it did. A policy that the log of a
    running job does not know sees windows of its own time, with the parameters that it would have there; of other
    logs it sees all snapshots.

    Raises:
        LogError: the log cannot be read; it names the line.
        OptionError: there is no such policy or parameter.
    """
    logged = any(entry.kind is EntryKind.POLICY and entry.content["policy"] == name for entry in read_log(path))
    if not logged and is_of_a_head(path):
        item = steering(name, {**OF_A_JOB.get(name, {}), **changes})
        yield from (Redecided(each.snapshot, each.decided, None) for each in in_windows(path, item))
        return
    policy = make_policy(name, changes)
    memory = policy.start()
    outcomes = outcomes_of(path, name)
    latest: ClusterSnapshot | None = None
    for entry in read_log(path):
        recorded: Mapping[str, Any] | None = None
        outcome: DecisionOutcome | None = None
        if entry.kind is EntryKind.POLICY and entry.content["policy"] == name:
            policy = make_policy(name, {**entry.content["parameters"], **changes})
            memory = over_another_plan(memory) if entry.content.get(GOES_ON) else policy.start()
        if entry.kind is EntryKind.SNAPSHOT:
            latest = snapshot_of(path, entry)
        if logged:
            if entry.kind is not EntryKind.DECISION or entry.content["policy"] != name:
                continue
            recorded, outcome = entry.content["decision"], next(outcomes)
            if latest is None or latest.number != entry.content["snapshot"]:
                raise ActionLogError(
                    f"{path}:{entry.line}: a decision on snapshot {entry.content['snapshot']}, which is not there"
                )
        elif entry.kind is not EntryKind.SNAPSHOT:
            continue
        assert latest is not None
        decision, memory = policy.decide(latest, memory)
        yield Redecided(latest, decision, recorded, outcome)
