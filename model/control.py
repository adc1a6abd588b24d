"""Control of a running job as its user wants it, and the limits of its queries while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from penstock.model.byte_counts import to_bytes
from penstock.model.errors import OptionError
from penstock.model.max_error import check_error
from penstock.model.policy_parameters import by_policy

Shed = Literal["off", "qod", "qod-paper", "sic", "both"]
Mode = Literal["recommend", "act", "shed", "scale"]
OfferedRates = Literal["end offsets", "lag maxima"]
Shedder = Literal["fair", "random", "fifo", "equal-share"]

SHED: tuple[str, ...] = get_args(Shed)
MODES: tuple[str, ...] = get_args(Mode)
OFFERED: tuple[str, ...] = get_args(OfferedRates)
SHEDDERS: tuple[str, ...] = get_args(Shedder)
BY_SIC = ("sic", "both")
"""Policies that drop what waits by source information content."""
NOBODY = "off"
"""The name of no policy."""
KEEP_POLICIES = ("qod", "qod-paper")
"""Policies by name that choose keep rates; a job may be told to shed by one of them while it runs."""
OF_CLASS = ":"
"""What the name of a class of a user's has, and no other: ``module:Class``."""


def keep_policy(shed: str) -> str | None:
    """Return the policy that chooses keep rates where ``shed`` says who sheds; None: there is none."""
    if shed == "both":
        return "qod"
    return None if shed in (NOBODY, *BY_SIC) else shed


def names_of(scale: str | Sequence[str]) -> tuple[str, ...]:
    """Return the policies that scale, by name: of one name, or of several; none where nobody does."""
    names = (scale,) if isinstance(scale, str) else scale
    return tuple(name for name in names if name != NOBODY)


@dataclass(frozen=True, slots=True)
class Control:
    """Control of a job under load, for `run` and `start`.

    ``shed``: the policy that chooses keep rates for queries with a minimum accuracy below 1; ``qod-paper`` shares out
    CPU as the paper does, ``off``: none. ``sic`` drops of what waits so that all queries keep equally much of their
    input (DISSP), ``both`` does so with what the rates of ``qod`` leave; these two have to act. ``mode``: ``act``, or
    ``recommend``, which decides and only says so; with ``shed`` who sheds acts and who scales recommends, with
    ``scale`` the other way round. ``shed_backlog``: rows that waited before the job started or was
    restored may be shed, too. ``period_s``: the time between two decisions, whole seconds. ``offered``: the measure of
    a source's input, ``lag maxima`` as in the paper. ``shedder``: who chooses of what waits with ``sic`` and ``both``:
    ``fair``, or a baseline of its paper. A class of yours that chooses keep rates is named as ``module:Class``.

    ``scale``: the policy that says how many instances, and how much memory, the job's tasks need: ``ds2``,
    ``autoscaler``, ``justin``, ``memory-choice``, ``flink-er``, ``sage``, ``sage-at-once``, or a class of yours as
    ``module:Class``; or several that decide on different things, as ``("sage", "ds2")``. They recommend, to the action
    log of the job, within ``cores`` and ``memory`` (bytes, or ``"16GB"``); None: what the machines have. A task manager
    works with one core, so a task gets no more instances than ``cores``; None: than there are task managers, and who
    only recommends says what it takes.
    ``first_cores`` are what the job begins with, for who sizes whole applications, as far as a ``quota`` has them;
    None: a core for each task manager.
    Jobs with the same ``quota``, a name, share their ``cores`` and ``memory``: on a Ray cluster, or on one machine;
    ``priority``: of two that want more the larger goes first.

    ``placement``: the policy that chooses where instances start, or a class of yours. ``parameters`` are those of who
    scales, as ``penstock decide --set`` names them, or nested; those of any policy begin with its name, or are nested
    below it: ``{"qod": {"reading.drain_s": 5}}``.

    ``given``: the options that were said, be it as they are by default. A file says the rest.
    """

    shed: str = "off"
    mode: Mode = "recommend"
    shed_backlog: bool = False
    period_s: int = 5
    offered: OfferedRates = "end offsets"
    shedder: Shedder = "fair"
    scale: str | Sequence[str] = NOBODY
    cores: float | None = None
    memory: int | str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    first_cores: float | None = None
    quota: str | None = None
    priority: int = 0
    placement: str = "placement"
    given: frozenset[str] = field(init=False, repr=False, compare=False)

    def __new__(cls, *values: Any, **named: Any) -> "Control":
        """Note which options are said."""
        made = object.__new__(cls)
        object.__setattr__(made, "given", frozenset((*tuple(cls.__dataclass_fields__)[: len(values)], *named)))
        return made

    def __post_init__(self) -> None:
        """Refuse what there is not.

        Raises:
            OptionError: naming the valid values.
        """
        for option, value, valid in (
            ("mode", self.mode, MODES),
            ("offered", self.offered, OFFERED),
            ("shedder", self.shedder, SHEDDERS),
        ):
            if value not in valid:
                raise OptionError(
                    f"control: {option} is {', '.join(map(repr, valid[:-1]))} or {valid[-1]!r}, not {value!r}"
                )
        check_shed(self.shed, "control: ")
        if self.shed in BY_SIC and not self.may_shed:
            raise OptionError(
                f"control: shed={self.shed!r} decides four times a second of what waits, and has nothing to recommend: "
                "say mode='act' or 'shed', or shed='qod'"
            )
        if isinstance(self.period_s, bool) or not isinstance(self.period_s, int) or self.period_s < 1:
            raise OptionError(f"control: period_s is a number of whole seconds, 1 or more, not {self.period_s!r}")
        self._check_scale()

    def _check_scale(self) -> None:
        if not self.scalers:
            names = ("cores", "memory", "first_cores", "quota")
            given = [name for name in names if getattr(self, name) is not None]
            if by_policy(self.parameters, self.policies)[""]:
                given.append("parameters")
            if given:
                raise OptionError(f"control: {given[0]} is of a policy that scales: say which, as scale='ds2'")
            if self.mode == "scale":
                raise OptionError("control: mode='scale' lets who scales act, and nobody does: say who, as scale='ds2'")
        if len(set(self.scalers)) < len(self.scalers):
            raise OptionError(f"control: scale names a policy twice: {', '.join(self.scalers)}")
        if len(self.scalers) > 1 and (open_ones := by_policy(self.parameters, self.policies)[""]):
            whose = f"{self.scalers[0]}.{min(open_ones)}"
            raise OptionError(
                f"control: {len(self.scalers)} policies scale: say whose {min(open_ones)!r} is, as {whose!r}"
            )
        for name in ("cores", "first_cores"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"control: {name} is a number above 0, not {value!r}")
        if self.quota is not None and self.cores is None and self.memory is None:
            raise OptionError("control: jobs share a quota of cores or memory: say cores= or memory= of all of them")
        if self.memory is not None:
            to_bytes(self.memory, "control: memory")

    @property
    def scalers(self) -> tuple[str, ...]:
        """The policies that scale, by name."""
        return names_of(self.scale)

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies of the job, by name, and those that it may be told to shed by: whose parameters may be given."""
        named = (*self.scalers, keep_policy(self.shed) or NOBODY, *KEEP_POLICIES, self.placement)
        return tuple(dict.fromkeys(name for name in named if name != NOBODY))

    def parameters_of(self, policy: str) -> dict[str, Any]:
        """Return the parameters that are given of a policy, without its name; those of parts have dots in theirs."""
        named = by_policy(self.parameters, self.policies)
        return (named[""] if self.scalers == (policy,) else {}) | named.get(policy, {})

    @property
    def memory_bytes(self) -> int | None:
        """The most bytes of memory; None: what the machines have."""
        return None if self.memory is None else to_bytes(self.memory, "control: memory")

    @property
    def quotas(self) -> dict[str, Any]:
        """The limits of a policy that scales, by their names."""
        memory = self.memory_bytes
        given = {"most_cores": self.cores, "most_memory_bytes": None if memory is None else float(memory)}
        bounded = {name: value for name, value in given.items() if value is not None}
        return bounded | {"one_per_core": self.cores is not None or self.may_scale}

    @property
    def may_shed(self) -> bool:
        """Whether who sheds acts, or would if somebody did."""
        return self.mode in ("act", "shed")

    @property
    def may_scale(self) -> bool:
        """Whether who scales acts."""
        return self.mode in ("act", "scale")

    @property
    def is_acting(self) -> bool:
        """Whether rows may be shed."""
        return self.shed != NOBODY and self.may_shed


def check_shed(shed: str, where: str = "") -> None:
    """Refuse who sheds unless it is a name of ours or looks like a class of a user's.

    Raises:
        OptionError: naming the valid values.
    """
    if shed not in SHED and not (isinstance(shed, str) and OF_CLASS in shed):
        raise OptionError(
            f"{where}shed is {', '.join(map(repr, SHED))} or a class of yours as 'module:Class', not {shed!r}"
        )


@dataclass(frozen=True, slots=True)
class QueryLimit:
    """The limits of a query that replace those of its program; None: as it says."""

    min_accuracy: float | None = None
    priority: int | None = None
    max_error: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no limit.

        Raises:
            OptionError: the accuracy is not in [0, 1], or the error not above 0 and below 1.
        """
        if self.max_error is not None:
            check_error(self.max_error)
        if self.min_accuracy is not None and not 0.0 <= self.min_accuracy <= 1.0:
            raise OptionError(f"min_accuracy is a share from 0 to 1, not {self.min_accuracy}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that were changed while a job ran: the policy that sheds (None: as it was started), queries by name.

    As a change, ``reset`` takes back what was changed before: of the queries that it names, or of all and the policy.
    """

    shed: str | None = None
    queries: Mapping[str, QueryLimit] = field(default_factory=dict)
    reset: bool = False

    def __post_init__(self) -> None:
        """Refuse what there is not.

        Raises:
            OptionError: naming the valid values.
        """
        if self.shed is not None:
            check_shed(self.shed)

    def changed_by(self, later: "Limits") -> "Limits":
        """Return these limits with what a later change says."""
        shed, queries = self.shed, dict(self.queries)
        if later.reset:
            shed = shed if later.queries else None
            queries = {name: limit for name, limit in queries.items() if later.queries and name not in later.queries}
        for name, limit in later.queries.items():
            before = queries.get(name, QueryLimit())
            queries[name] = replace(
                before,
                min_accuracy=before.min_accuracy if limit.min_accuracy is None else limit.min_accuracy,
                priority=before.priority if limit.priority is None else limit.priority,
                max_error=before.max_error if limit.max_error is None else limit.max_error,
            )
        return Limits(later.shed or shed, {name: limit for name, limit in queries.items() if limit != QueryLimit()})

    def text(self) -> str:
        """Return them in words."""
        said = [] if self.shed is None else [f"shed {self.shed}"]
        for name, limit in self.queries.items():
            figures = {"accuracy": limit.min_accuracy, "error": limit.max_error, "priority": limit.priority}
            said.append(f"{name} {', '.join(f'{of} {value:g}' for of, value in figures.items() if value is not None)}")
        return "; ".join(said)


NO_LIMITS = Limits()


def limits_of(
    shed: str | None,
    query: str | None,
    min_accuracy: float | None,
    priority: int | None,
    max_error: float | None = None,
    *,
    reset: bool = False,
) -> Limits:
    """Return the change that these values ask for; None: as it was. ``reset`` takes back earlier ones first.

    Raises:
        OptionError: there is nothing to change, or it is not said of which query.
    """
    if query is None:
        if min_accuracy is not None or priority is not None or max_error is not None:
            raise OptionError("min_accuracy, max_error and priority are those of a query: say which")
        if shed is None and not reset:
            raise OptionError("say what is to change: shed, or min_accuracy, max_error or priority of a query")
        return Limits(shed, reset=reset)
    if min_accuracy is None and priority is None and max_error is None and not reset:
        raise OptionError(f"say what is to change of query {query!r}: min_accuracy, max_error or priority")
    return Limits(shed, {query: QueryLimit(min_accuracy, priority, max_error)}, reset)


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """Control of a run: the file for what controllers see and decide, and what its user wants of them.

    ``control`` None: nothing, beyond recommendations in the log. ``own_log`` is the file of a job that acts and that
    no ``log`` is named for; None: it keeps none.
    """

    log: Path | None = None
    control: Control | None = None
    own_log: Path | None = None

    @property
    def watches(self) -> bool:
        """Whether controllers look at a job that they place nothing of."""
        return self.log is not None or self.control is not None


NO_CONTROL = ControlOptions()
