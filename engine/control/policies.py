"""The policies by name: the one line that a new one needs. ``penstock decide`` looks here.

A policy is a frozen dataclass whose fields are its parameters (`model.policy`); it is imported when it is asked for.
One of a user's is asked for by ``module:Class``. It comes between guards (`scheduler.guarded`), whose limits are
parameters too: ``limits.step_factor``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from math import isinf
from typing import Any

from penstock.model.errors import OptionError
from penstock.model.policy import Policy
from penstock.scheduler.guarded import Guarded, guarded
from penstock.scheduler.limits import PlanLimits

POLICIES: dict[str, str] = {
    "autoscaler": "penstock.scheduler.autoscaler:Autoscaler",
    "ds2": "penstock.scheduler.ds2:Ds2",
    "ds2-fitted": "penstock.scheduler.ds2_fitted:Ds2Fitted",
    "flink-er": "penstock.scheduler.flink_er:FlinkEr",
    "justin": "penstock.scheduler.justin:Justin",
    "memory-choice": "penstock.scheduler.memory_choice:MemoryChoice",
    "placement": "penstock.scheduler.placement:TaskScheduler",
    "qod": "penstock.shedding.qod:PENSTOCK",
    "qod-paper": "penstock.shedding.qod:PAPER",
    "sage": "penstock.scheduler.sage:Sage",
    "sage-at-once": "penstock.scheduler.sage_at_once:SageAtOnce",
}
"""``module:class``, or ``module:policy``, by name."""


LIMITS = "limits."
"""What the names of the guards' parameters begin with."""


def make_policy(name: str, parameters: Mapping[str, Any]) -> Guarded[Any]:
    """Return a guarded policy with these parameters, the rest as by default; text is taken for what it says.

    Raises:
        OptionError: there is no such policy or parameter, or a value does not fit; the valid ones are named.
    """
    policy: Any = guarded(policy_object(name), PlanLimits())
    defaults = parameters_of(policy)
    unknown = sorted(parameters.keys() - defaults.keys())
    if unknown:
        raise OptionError(f"policy {name!r} has no parameter {unknown[0]!r}; it has {', '.join(defaults) or 'none'}")
    try:
        for key, value in parameters.items():
            path = key.split(".") if key.startswith(LIMITS) else ["policy", *key.split(".")]
            policy = _with(policy, path, _fitting(key, defaults[key], value))
    except (TypeError, ValueError) as error:
        raise OptionError(f"policy {name!r}: {error}") from error
    result: Guarded[Any] = policy
    return result


def policy_object(name: str) -> Any:
    """Return a policy, by its name or as ``module:Class``, with its parameters as by default and without guards.

    Raises:
        OptionError: there is none.
    """
    if name not in POLICIES and ":" not in name:
        raise OptionError(
            f"there is no policy {name!r}; choose from {', '.join(sorted(POLICIES))}, or name a class of yours as "
            "'module:Class'"
        )
    module, _, attribute = POLICIES.get(name, name).partition(":")
    try:
        found: Any = getattr(import_module(module), attribute)
        made = found() if isinstance(found, type) else found
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise OptionError(f"policy {name!r} cannot be had: {error}") from error
    if not is_dataclass(made) or not all(callable(getattr(made, part, None)) for part in ("start", "decide")):
        raise OptionError(f"{name!r} is no policy: it is a frozen dataclass with start() and decide()")
    return made


def parameters_of(policy: Policy[Any]) -> dict[str, Any]:
    """Return the parameters of a policy by name, as JSON can hold them; those of a part have dots in their names.

    Functions are none: a policy that is made of others has another name.
    """
    if isinstance(policy, Guarded):
        return dict(_flat(policy.policy, "")) | dict(_flat(policy.limits, LIMITS))
    return dict(_flat(policy, ""))


def _flat(values: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for field in fields(values):
        value = getattr(values, field.name)
        if is_dataclass(value):
            yield from _flat(value, f"{prefix}{field.name}.")
        elif not callable(value):
            yield prefix + field.name, str(value) if isinstance(value, float) and isinf(value) else value


def _with(values: Any, path: Sequence[str], value: Any) -> Any:
    """Return a frozen dataclass with another value at a path of fields."""
    inner = value if len(path) == 1 else _with(getattr(values, path[0]), path[1:], value)
    return replace(values, **{path[0]: inner})


def _fitting(key: str, default: Any, value: Any) -> Any:
    """Return a value as its default is: text of the command line becomes a number.

    Raises:
        ValueError: it is of another kind.
    """
    if isinstance(value, list):
        return tuple(value)
    if isinstance(default, bool):
        known = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        return _of_kind(key, known, bool, "true or false")
    if isinstance(default, str) and default not in ("inf", "-inf"):
        return _of_kind(key, value, str, "a text")
    if isinstance(value, str):
        if value == "none":
            return None
        return int(value) if value.lstrip("+-").isdecimal() else float(value)
    if isinstance(default, int | float | str) and value is not None:
        return _of_kind(key, value, (int, float), "a number")
    return value


def _of_kind(key: str, value: Any, kind: type | tuple[type, ...], words: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        raise ValueError(f"{key} is {words}, not {value!r}")
    return value
