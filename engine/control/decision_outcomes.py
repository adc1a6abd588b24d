"""What a log says became of decisions: the outcome, what was withheld and why, and figures as expected and observed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.scheduler.action_log import EntryKind, read_log

MOVES = "moves"
"""Where the result of a decision on keep rates has what is to be said of its moves."""


@dataclass(slots=True)
class SeenEffect:
    """A figure of a subject before a decision was carried out, as expected after it, and as it was then.

    ``observed``: None if it was not looked at, or not measured.
    """

    subject: str
    figure: str
    before: float | None
    expected: float | None
    observed: float | None = None

    def sentence(self) -> str:
        """Return it for people."""
        before, expected = _figure_text(self.before), _figure_text(self.expected)
        seen = "" if self.observed is None else f", was {_figure_text(self.observed)}"
        return f"{self.subject} {self.figure} {before} -> {expected}{seen}"


@dataclass(slots=True)
class DecisionOutcome:
    """What became of one decision: ``results`` in order, as begun and applied; a failed one says why."""

    results: list[str] = field(default_factory=list)
    effects: list[SeenEffect] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)

    def sentence(self) -> str:
        """Return it for people, "" if nothing is known of it."""
        said = [", ".join(self.results), *(f"withheld: {text}" for text in dict.fromkeys(self.withheld))]
        return "; ".join(filter(None, [*said, *(effect.sentence() for effect in self.effects)]))


def outcomes_of(log: Path, name: str) -> Iterator[DecisionOutcome]:
    """Yield what became of each decision of a policy, in the order of the decisions.

    An effect is seen at a later look, and stands with the decision that expected it.

    Raises:
        ActionLogError: the log cannot be read; the message names the line.
    """
    outcomes: list[DecisionOutcome] = []
    # By the snapshot that each was made on; runs that follow each other in a file number theirs anew.
    made_on: dict[int, DecisionOutcome] = {}
    for entry in read_log(log):
        if entry.content.get("policy") != name:
            continue
        if entry.kind is EntryKind.DECISION:
            outcomes.append(DecisionOutcome())
            made_on[entry.content["snapshot"]] = outcomes[-1]
        elif entry.kind is EntryKind.RESULT and (own := made_on.get(entry.content["snapshot"])) is not None:
            detail: Mapping[str, Any] = entry.content["detail"]
            _add(own, entry.content["outcome"], detail, outcomes)
    yield from outcomes


def _add(own: DecisionOutcome, outcome: str, detail: Mapping[str, Any], outcomes: list[DecisionOutcome]) -> None:
    failure = detail.get("failure")
    own.results.append(f"{outcome}: {failure}" if failure else outcome)
    moves = detail.get(MOVES)
    said = moves if isinstance(moves, dict) and "expected" in moves else detail
    for effect in said.get("effects", ()):
        _observe(outcomes, effect)
    own.effects += [
        SeenEffect(item["subject"], item["figure"], item["before"], item["after"]) for item in said.get("expected", ())
    ]
    own.withheld += [f"{item['subject']} {item['what']}: {item['why']}" for item in said.get("withheld", ())]


def _observe(outcomes: list[DecisionOutcome], effect: Mapping[str, Any]) -> None:
    """Note a figure with the last decision that expected it."""
    for outcome in reversed(outcomes):
        for known in outcome.effects:
            is_it = (known.subject, known.figure) == (effect["subject"], effect["figure"])
            if is_it and known.observed is None and known.expected == effect["expected"]:
                known.observed = effect["observed"]
                return


def _figure_text(value: float | None) -> str:
    return "?" if value is None else f"{value:,.4g}"
