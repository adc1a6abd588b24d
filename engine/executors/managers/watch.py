"""The head's watch over all task managers: who is lost, who is stuck and where, in words, each said once. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.engine.executors.managers.liveness import LifeSigns, Limits, Liveness, Verdict
from penstock.engine.executors.managers.messages import StuckInStep
from penstock.engine.executors.managers.observed_time import ObservedTime
from penstock.engine.executors.managers.step_report import StepReport


@dataclass(frozen=True, slots=True)
class ManagerSigns:
    """Signs of a task manager's life: when it was last heard, and the time its process has used on any core so far.

    Both in nanoseconds, the first by the clock of whoever watches; the second is None if it cannot be seen from here.
    """

    heard_ns: int
    cpu_ns: int | None


@dataclass(frozen=True, slots=True)
class Dead:
    """A task manager is lost; nothing more is said of it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Stuck:
    """A task manager lives and gets nowhere. Said anew when more becomes known, as the line it is in."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class WellAgain:
    """A task manager that was stuck goes on."""

    name: str
    text: str


Finding = Dead | Stuck | WellAgain


@dataclass(slots=True)
class _Watched:
    liveness: Liveness
    heard_ns: int
    """When it was heard last; the head's clock."""
    silent_ns: int = 0
    """For how long it has not been heard, as far as the head could hear."""
    step: StuckInStep | None = None
    began_ns: int = 0
    """When the step began; the head's clock."""
    dead: bool = False
    stuck: bool = False
    reported: StuckInStep | None = None
    """The step that was spoken of since it was last well; None: none is known."""


class ManagerWatch:
    """Beliefs about the task managers whose signs it is shown; those that are shown no more are forgotten."""

    def __init__(self, limits: Limits | None = None) -> None:
        """Begin with none."""
        self._limits = limits or Limits()
        self._observed: ObservedTime | None = None
        self._watched: dict[str, _Watched] = {}

    def hear(self, name: str, report: StepReport, now_ns: int) -> None:
        """Take what a task manager says of its step; of one that is not watched it does not count."""
        watched = self._watched.get(name)
        if watched is None:
            return
        if isinstance(report, StuckInStep):
            watched.step, watched.began_ns = report, now_ns - int(report.seconds * 1e9)
        else:
            watched.step = None

    def look(self, now_ns: int, signs: Mapping[str, ManagerSigns]) -> list[Finding]:
        """Return what is new of each; time must not go back.

        The silence of others while the head itself stood still is not held against them: see `ObservedTime`.
        """
        observed = self._observed = self._observed or ObservedTime(now_ns)
        passed_ns = observed.look(now_ns)
        for name in self._watched.keys() - signs.keys():
            del self._watched[name]
        findings: list[Finding] = []
        for name, each in signs.items():
            new = _Watched(Liveness(observed.now_ns, self._limits), each.heard_ns)
            watched = self._watched.setdefault(name, new)
            if each.heard_ns == watched.heard_ns:
                watched.silent_ns += passed_ns
            else:
                watched.heard_ns, watched.silent_ns = each.heard_ns, min(now_ns - each.heard_ns, passed_ns)
            finding = None if watched.dead else self._look_at(name, watched, each, now_ns, observed.now_ns)
            if finding is not None:
                findings.append(finding)
        return findings

    def _look_at(
        self, name: str, watched: _Watched, signs: ManagerSigns, now_ns: int, observed_ns: int
    ) -> Finding | None:
        # A step that began within the same nanosecond is one, too.
        step_ns = 0 if watched.step is None else max(1, signs.heard_ns - watched.began_ns)
        silent_s = watched.silent_ns // 1_000_000_000
        match watched.liveness.look(LifeSigns(observed_ns, observed_ns - watched.silent_ns, signs.cpu_ns, step_ns)):
            case Verdict.DEAD:
                watched.dead = True
                core = "" if signs.cpu_ns is None else ", and uses no core"
                return Dead(name, f"task manager {name!r} is lost: it has said nothing for {silent_s} s{core}")
            case Verdict.STUCK if not watched.stuck or watched.step not in (None, watched.reported):
                watched.stuck, watched.reported = True, watched.step
                return Stuck(name, _where(name, watched, now_ns, silent_s))
            case Verdict.WELL if watched.stuck:
                watched.stuck, watched.reported = False, None
                return WellAgain(name, f"task manager {name!r} goes on")
        return None


def _where(name: str, watched: _Watched, now_ns: int, silent_s: int) -> str:
    if watched.step is None:
        return (
            f"task manager {name!r} has said nothing for {silent_s} s but uses a core: "
            "it still imports, or user code holds the interpreter lock"
        )
    place = ", ".join(part for part in (watched.step.instance, watched.step.line) if part)
    return f"task manager {name!r} has been in one step for {(now_ns - watched.began_ns) // 1_000_000_000} s: {place}"
