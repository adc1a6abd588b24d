"""Control of a job as a file, its program and the command line say it: of each option the last that says it counts."""

from collections.abc import Mapping
from typing import Any

from penstock.model.control import KEEP_POLICIES, NOBODY, Control, keep_policy, names_of
from penstock.model.policy_parameters import by_policy

PLACEMENT = "placement"
"""The option, and who places where it is not said."""


def said_by(control: Control | None) -> dict[str, Any]:
    """Return the options of a control that were given, as they are by default or not."""
    return {} if control is None else {name: getattr(control, name) for name in control.given}


def overlaid(*layers: Mapping[str, Any]) -> Control:
    """Return the control of what layers say together, of which each wins over those before it.

    Parameters are laid over each other one by one; those of a policy that nobody chose in the end are let go.

    Raises:
        OptionError: together it is impossible; the message says why.
    """
    options = {name: value for layer in layers for name, value in layer.items()}
    scalers = names_of(options.get("scale", NOBODY))
    merged: dict[str, dict[str, Any]] = {}
    chosen = {"", *scalers, *_others(options)}
    for layer in layers:
        for policy, parameters in _by_policy(layer, options).items():
            if policy in chosen:
                merged.setdefault(policy, {}).update(parameters)
    only = scalers[0] if len(scalers) == 1 else ""
    flat = {
        key if policy in ("", only) else f"{policy}.{key}": value
        for policy, parameters in merged.items()
        for key, value in parameters.items()
    }
    options.pop("parameters", None)
    if flat:
        options["parameters"] = flat
    return Control(**options)


def _others(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the policies that do not scale whose parameters may be said."""
    keeps = keep_policy(options.get("shed", NOBODY))
    return (*(() if keeps is None else (keeps,)), *KEEP_POLICIES, options.get(PLACEMENT, PLACEMENT))


def _by_policy(layer: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parameters of a layer by the policies that it means; what it leaves open all layers together say."""
    meant = {**options, **layer}
    scalers = names_of(meant.get("scale", NOBODY))
    parameters = by_policy(layer.get("parameters", {}), (*scalers, *_others(meant)))
    if len(scalers) == 1:
        parameters[scalers[0]] = parameters.pop("") | parameters.get(scalers[0], {})
    return parameters
