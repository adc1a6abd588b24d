"""The policies that shed and place on a job, as its user has chosen them: by name, or a class of the user's.

Who scales is chosen by `steering.scalers`. Called as controllers start, and where a job is told to shed by another one.
"""

from typing import Any

from penstock.engine.control.policies import make_policy, parameters_of, policy_object
from penstock.engine.control.steering import role_of, scalers
from penstock.model.control import KEEP_POLICIES, Control, keep_policy
from penstock.model.errors import OptionError
from penstock.scheduler.guarded import Guarded
from penstock.scheduler.ownership import Resource

PLACEMENT = "placement"
"""Who places instances unless a job says otherwise."""

DRAIN_CYCLES = 1.75
"""Cycles in which what waits beyond its bound is to be worked off."""

OF_THE_JOB = {"period_s": "period_s", "reading.sources": "offered"}
"""Parameters of who sheds that a job says by an option of its own, by that option."""


def who_sheds(control: Control, shed: str, *, moves: bool = False) -> Guarded[Any]:
    """Return the policy that chooses keep rates where ``shed`` says who sheds; ``moves``: somebody carries moves out.

    Raises:
        OptionError: there is no such policy or parameter, or it decides on something else; the valid ones are named.
    """
    name = keep_policy(shed)
    assert name is not None
    owns = role_of(name).owns
    if Resource.KEEP_RATES not in owns or not owns <= {Resource.KEEP_RATES, Resource.MOVES}:
        raise OptionError(
            f"control: shed={name!r} decides on {_listed(owns)}: who sheds decides on {Resource.KEEP_RATES}, perhaps "
            f"on {Resource.MOVES}, and on nothing else, as {', '.join(KEEP_POLICIES)} do, or a class of yours"
        )
    given = control.parameters_of(name)
    for parameter, option in OF_THE_JOB.items():
        if parameter in given and name in KEEP_POLICIES:
            raise OptionError(f"control: {parameter} of {name!r} is what the option {option} of the control says")
    # Instances take over what others had, and do not warm up: a start is no reason to run at minimums. Ticks come a
    # little early or late; the caller counts them, and one after the other is the next cycle.
    usual: dict[str, Any] = {
        "warm_up.timeout_s": 0.0,
        "reading.sources": control.offered,
        "period_s": 0.75 * control.period_s,
        "moves": moves,
    }
    if name == "qod":
        usual["reading.drain_s"] = DRAIN_CYCLES * control.period_s
    has = parameters_of(policy_object(name))
    chosen = {key: value for key, value in usual.items() if key in has} | given
    if not moves and "moves" in has:
        # Nobody lets go what nobody carries out.
        chosen["moves"] = False
    return make_policy(name, chosen)


def who_places(control: Control) -> Guarded[Any]:
    """Return the policy that chooses where instances start.

    Raises:
        OptionError: there is no such policy or parameter, or it decides on something else; the valid ones are named.
    """
    name = control.placement
    if (owns := role_of(name).owns) != {Resource.STARTS}:
        raise OptionError(
            f"control: placement={name!r} decides on {_listed(owns)}: who places decides on {Resource.STARTS}, and on "
            f"nothing else, as {PLACEMENT!r} does, or a class of yours"
        )
    # Instances that are numbered alike meet, and what does not run is placed again at once.
    usual = {"in_turn": True, "start_timeout_s": 0.0} if name == PLACEMENT else {}
    return make_policy(name, usual | control.parameters_of(name))


def check_policies(control: Control) -> None:
    """Refuse policies and parameters that a control names and that there are not.

    Raises:
        OptionError: naming the valid ones.
    """
    who_places(control)
    for shed in dict.fromkeys((control.shed, *KEEP_POLICIES)):
        # A job may be told to shed by another one while it runs.
        if keep_policy(shed) is not None:
            who_sheds(control, shed)
    scalers(control)


def _listed(owns: frozenset[Resource]) -> str:
    return " and ".join(sorted(owns))
