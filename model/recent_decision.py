"""A decision of a controller of a running job, for people."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecentDecision:
    """What a policy wanted done and why, so many seconds ago; ``outcome``: what became of it, "" if unknown."""

    policy: str
    what: str
    why: str
    outcome: str = ""
    ago_s: float = 0.0

    def sentence(self) -> str:
        """Return it for people."""
        outcome = f", {self.outcome}" if self.outcome else ""
        return f"{self.policy}: {self.what}{outcome}; {self.why}"
