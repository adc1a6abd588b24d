"""What a scaler does to a running job, for status, metrics and people."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScalingStatus:
    """The last decision of a scaler: the policy ``scale``, its ``mode``, its reason, and the instances that it wants.

    ``wanted``: (task, instances now, instances wanted) of tasks that are to have others, () if all is as it should be.
    ``memory``: (task, bytes of each instance) of tasks whose memory is to be so much. ``moves``: (task, key groups that
    are to change their instances); ``routes``: (task, shares of its instances in rows that may go to any). ``spread``:
    instances are placed anew, on so many cores; 0: they stay where they are.
    ``outcome``: "recommended", "begun", "applied" or "failed: ..."; "" if nothing was wanted or all was withheld.
    ``withheld``: the first reason why something was not done, "" if there was none. ``changes`` were done in all.
    """

    scale: str
    mode: str
    reason: str
    wanted: tuple[tuple[str, int, int], ...] = ()
    outcome: str = ""
    withheld: str = ""
    changes: int = 0
    memory: tuple[tuple[str, int], ...] = ()
    moves: tuple[tuple[str, int], ...] = ()
    routes: tuple[tuple[str, tuple[float, ...]], ...] = ()
    spread: int = 0

    def what(self) -> str:
        """Return what is to be otherwise, for people; "": nothing, or it is in the reason."""
        parts = [f"{after} instances of {task} (now {before})" for task, before, after in self.wanted]
        parts += [f"{size / 1e6:.0f} MB for each instance of {task}" for task, size in self.memory]
        parts += [f"{count} key groups of {task} go to other instances" for task, count in self.moves]
        parts += [f"rows to {task} by shares {', '.join(f'{each:.2f}' for each in own)}" for task, own in self.routes]
        parts += [f"instances placed anew on {self.spread} cores"] if self.spread else []
        return ", ".join(parts)

    def sentence(self) -> str:
        """Return it for people."""
        wanted = self.what()
        said = f"{self.scale}: {self.reason}" + (f"; {wanted}" if wanted else "")
        said += f", {self.outcome}" if self.outcome else ""
        said += f"; withheld: {self.withheld}" if self.withheld else ""
        return f"{said}; {self.changes} change{'' if self.changes == 1 else 's'} so far" if self.changes else said


def together(said: Sequence[ScalingStatus]) -> ScalingStatus | None:
    """Return what several scalers of one job do as one status, with the reason of each; None: there is none yet."""
    if len(said) < 2:
        return said[0] if said else None
    return ScalingStatus(
        " + ".join(each.scale for each in said),
        said[0].mode,
        "; ".join(f"{each.scale}: {each.reason}" for each in said),
        tuple(task for each in said for task in each.wanted),
        ", ".join(f"{each.scale} {each.outcome}" for each in said if each.outcome),
        "; ".join(f"{each.scale}: {each.withheld}" for each in said if each.withheld),
        sum(each.changes for each in said),
        tuple(task for each in said for task in each.memory),
        tuple(task for each in said for task in each.moves),
        tuple(task for each in said for task in each.routes),
        max(each.spread for each in said),
    )
