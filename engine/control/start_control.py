"""Makes the controllers of a job from its options, and says at once what they cannot do for it."""

from collections.abc import Callable, Sequence

from penstock.engine.control.chosen_policies import check_policies, who_places
from penstock.engine.control.decision_log import DecisionLog
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.levers import NO_LEVERS, Levers
from penstock.engine.control.load_shedding import LoadShedding
from penstock.engine.control.move_control import can_move
from penstock.engine.control.part_reading import is_stateful
from penstock.engine.control.policies import policy_object
from penstock.engine.control.scale_control import ScaleSettings
from penstock.engine.control.shedding_scope import SheddingScope, check_limits
from penstock.engine.control.steering import role_of
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.control import BY_SIC, OF_CLASS, Control, ControlOptions, Limits
from penstock.model.errors import OptionError
from penstock.scheduler.action_log import ActionLogError
from penstock.scheduler.ownership import Resource

OWN_LOG_BYTES = 256_000_000
"""From this size on the log that a job keeps by itself is set aside, and another one begun."""

NEEDS_BOUND = "needs_bounded_state"
"""An attribute of policies that decide on nothing where the state of operators has no bound."""

RECOMMENDED = Control("qod", "recommend")
"""The control of a job that only keeps a log."""


def start_control(
    plan: JobPlan,
    now_ns: int,
    options: ControlOptions,
    warn: Callable[[str], None],
    levers: Levers = NO_LEVERS,
    before: JobControl | None = None,
) -> JobControl:
    """Return the controllers of a job, which act through ``levers``.

    ``before`` are those of the job's plan before, which are closed.

    Raises:
        OptionError: the log cannot be written, limits are of a query without a contract, or a policy or a parameter is
            not there, or who scales has no log.
        ActionLogError: the file is no log.
    """
    control = RECOMMENDED if options.control is None and options.log is not None else options.control
    shedding = None
    placer = None
    if control is not None:
        check_policies(control)
        placer = who_places(control)
        shedding = LoadShedding(plan.graph, control, moves=control.may_shed and can_move(plan.graph, levers.moves))
        if control.shed in BY_SIC:
            _check_sic(shedding.scope, control.shed, acts=control.is_acting)
        if control.is_acting and (sentence := _useless(shedding.scope)):
            warn(sentence)
    if shedding is not None and levers.limits is not None:
        assert control is not None
        scope, acts = shedding.scope, shedding.is_acting

        def check(wanted: Limits) -> None:
            check_limits(plan.graph, wanted)
            _check_class(wanted.shed, control)
            if wanted.shed in BY_SIC:
                _check_sic(scope, wanted.shed, acts=acts)

        levers.limits.watch(check, control.shed)
    if control is not None and control.scalers:
        if control.may_scale and levers.sizes is None:
            raise OptionError(
                f"scale={control.scale!r} with mode={control.mode!r} changes parallelism and task managers: run the "
                "job with executor='processes' or 'ray' (--executor processes) and checkpoint_dir=..., or say "
                "mode='recommend', or 'shed' to let who sheds act alone"
            )
        if options.log is None and not control.may_scale and not _keeps_own_log(options, control):
            raise OptionError(
                f"scale={control.scale!r} recommends, and its recommendations go to the action log: say "
                "action_log='FILE' (--action-log FILE)"
            )
        of_jobs = [name for name in control.scalers if Resource.ALLOCATIONS in role_of(name).owns]
        if plan.loop.state_bytes is None and any(is_stateful(plan.graph, task) for task in plan.graph.tasks):
            _check_bounds(control, of_jobs)
        if control.quota is not None and not of_jobs:
            raise OptionError(
                f"quota={control.quota!r} is shared by jobs that are sized as a whole: say scale='sage', or "
                f"('sage', {control.scalers[0]!r})"
            )
        if levers.memory is not None:
            levers.memory.quota_bytes = control.memory_bytes
    log = _log(options, control, warn)
    scaling = None
    if control is not None and control.scalers:
        acting = levers.sizes if control.may_scale else None
        memory = None if before is None else before.scale_memory
        scaling = ScaleSettings(control, acting, memory, levers.quota if control.may_scale else None, warn)
    started = JobControl(plan.name, plan.graph, plan.loop, now_ns, log, shedding, levers, scaling)
    if control is not None and placer is not None:
        started.place_by(control.placement, placer)
    if before is not None:
        started.follow(before)
    started.warn = warn
    return started


def _keeps_own_log(options: ControlOptions, control: Control | None) -> bool:
    """Return whether no log is named for a job that acts, and has a place for one."""
    return options.log is None and options.own_log is not None and control is not None and control.mode != "recommend"


def _log(options: ControlOptions, control: Control | None, warn: Callable[[str], None]) -> DecisionLog | None:
    """Return the log that is named, or that which a job that acts keeps by itself, None: neither."""
    if options.log is not None:
        return DecisionLog(options.log, warn)
    path = options.own_log
    if path is None or control is None or not _keeps_own_log(options, control):
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return DecisionLog(path, warn, (control.placement,), OWN_LOG_BYTES)
    except (OSError, OptionError, ActionLogError) as error:
        # Nobody has asked for it.
        warn(f"NO ACTION LOG: {error}; say where it is to be, as action_log='FILE' (--action-log FILE)")
        return None


def _check_bounds(control: Control, of_jobs: Sequence[str]) -> None:
    """Refuse to size or bound the memory of state that has no bound."""
    choosing = [name for name in control.scalers if getattr(policy_object(name), NEEDS_BOUND, False)]
    if of_jobs or choosing:
        raise OptionError(
            f"scale={[*of_jobs, *choosing][0]!r} sizes the memory of state, which has no bound here: say what it "
            "begins with, as state_bytes=64_000_000"
        )
    if control.memory is not None:
        raise OptionError(
            f"memory={control.memory!r} with scale={control.scalers[0]!r} bounds the memory of state, of which nothing "
            "is known here as it has no bound: say what an operator's instance has, as state_bytes=64_000_000, or "
            "leave memory= out"
        )


def _check_class(shed: str | None, control: Control) -> None:
    """Refuse a class that the job was not started with: whoever may change its limits gets no code run by that."""
    if shed is not None and OF_CLASS in shed and shed != control.shed:
        raise OptionError(f"shed={shed!r} is a class that the job was not started with: start it with --shed {shed}")


def _check_sic(scope: SheddingScope, shed: str, *, acts: bool) -> None:
    """Refuse to shed by SIC what needs a sample by chance or by keys, and where nobody acts."""
    if not acts:
        raise OptionError(f"shed={shed!r} is of a job that was started with mode='act' or 'shed'")
    if scope.goals:
        names = ", ".join(map(repr, sorted(scope.goals)))
        raise OptionError(
            f"shed={shed!r} drops rows by what they are worth, so that no interval says how far off results are: query "
            f"{names} wants a maximum error; use shed='qod', or with_min_accuracy()"
        )
    if shed == "sic" and scope.points.keyed:
        edge = " > ".join(min(scope.points.keyed))
        raise OptionError(
            f"shed='sic' drops stretches of rows, which would tear apart what is made of all rows of a key, at {edge}: "
            "use shed='qod' or 'both', which sample it by keys"
        )


def _useless(scope: SheddingScope) -> str:
    """Return why nothing can be shed, "" if something can."""
    if all(spec >= 1.0 for spec in scope.declared.values()):
        return (
            "NOTHING IS SHED: no query of the job allows it; write .with_min_accuracy(0.7), or another share below 1, "
            "behind a sink."
        )
    if not scope.points.sources:
        reasons = "; ".join(f"source {name!r}: {reason}" for name, reason in sorted(scope.points.reasons.items()))
        return f"NOTHING IS SHED: {reasons}."
    return ""
