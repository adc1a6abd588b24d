"""Sage without its waits: what rests on evidence of its own changes in one action (docs/design/papers/sage.md 6).

The paper alters one resource at a time, "at the cost of a minimal increase in sizing time", about 40 minutes. Its order
of priority stays where a rule's evidence rests on what another one changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.scheduler.at_once_rules import AT_ONCE, SOON_S
from penstock.scheduler.sage import Sage
from penstock.scheduler.sizing_rule import Limits, Rule


@dataclass(frozen=True, slots=True)
class SageAtOnce(Sage):
    """Sage with rules that act together and windows that end when enough is known."""

    def rules(self) -> Sequence[Rule]:
        """Return the rules by priority."""
        return AT_ONCE

    def limits(self) -> Limits:
        """Return the bounds of Sage; before a shrink no rows wait for as long as before a growth they do.

        Nothing in the evidence of a shrink is hidden by a backlog: it is the work that comes.
        """
        return replace(super(SageAtOnce, self).limits(), idle_s=SOON_S)

    def wait_s(self) -> float:
        """Return two ticks: work that comes is no other while a backlog is made up for."""
        return SOON_S
