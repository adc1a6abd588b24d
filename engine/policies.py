"""The policies by name: the one line that a new one needs. The control loop and ``penstock decide`` look here.

A policy is a frozen dataclass whose fields are its parameters (`model.policy`); it is imported when it is asked for.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import import_module
from typing import Any

from penstock.model.errors import OptionError
from penstock.model.policy import Policy

POLICIES: dict[str, str] = {
    "flink-er": "penstock.scheduler.flink_er:FlinkEr",
    "sage": "penstock.scheduler.sage:Sage",
}
"""``module:class`` by name."""


def make_policy(name: str, parameters: Mapping[str, Any]) -> Policy[Any]:
    """Return a policy with these parameters, the rest as they are by default.

    Raises:
        OptionError: there is no such policy or parameter, or a value does not fit; the valid ones are named.
    """
    if name not in POLICIES:
        raise OptionError(f"there is no policy {name!r}; choose from {', '.join(sorted(POLICIES))}")
    module, _, found = POLICIES[name].partition(":")
    policy: Any = getattr(import_module(module), found)()
    known = parameters_of(policy)
    unknown = sorted(parameters.keys() - known.keys())
    if unknown:
        raise OptionError(f"policy {name!r} has no parameter {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    try:
        made: Policy[Any] = replace(policy, **{key: _fitting(known[key], v) for key, v in parameters.items()})
    except (TypeError, ValueError) as error:
        raise OptionError(f"policy {name!r}: {error}") from error
    return made


def parameters_of(policy: Policy[Any]) -> dict[str, Any]:
    """Return the parameters of a policy by name."""
    values: Any = policy
    return {field.name: getattr(policy, field.name) for field in fields(values)}


def _fitting(default: Any, value: Any) -> Any:
    """Return a value as its default is: text of the command line becomes a number."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, bool):
        if value not in ("true", "false"):
            raise ValueError(f"{value!r} is neither true nor false")
        return value == "true"
    if value == "none":
        return None
    return int(value) if isinstance(default, int) else float(value)
