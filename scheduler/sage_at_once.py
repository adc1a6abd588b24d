"""Sage without its waits: resources with independent evidence change in one action (docs/design/papers/sage.md 6).

The paper alters one resource at a time, "at the cost of a minimal increase in sizing time", about 40 minutes. Its order
of priority stays where a rule's evidence rests on what another one changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.scheduler.concurrent_rules import CONCURRENT_RULES, EARLY_WINDOW_S
from penstock.scheduler.sage import Sage
from penstock.scheduler.sizing_rule import Rule, RuleLimits


@dataclass(frozen=True, slots=True)
class SageAtOnce(Sage):
    """Sage with rules that act together and windows that end as soon as the evidence suffices."""

    def rules(self) -> Sequence[Rule]:
        """Return the rules by priority."""
        return CONCURRENT_RULES

    def limits(self) -> RuleLimits:
        """Return Sage's limits; a shrink requires no waiting rows for as long as a growth requires waiting ones.

        A backlog hides nothing of the evidence for a shrink, which is the arriving work.
        """
        return replace(super(SageAtOnce, self).limits(), idle_s=self._length_s(EARLY_WINDOW_S))

    def wait_s(self) -> float:
        """Return two ticks: the arriving work is the same while a backlog drains."""
        return self._length_s(EARLY_WINDOW_S)
