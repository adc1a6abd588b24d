"""Parameters of policies as users write them: nested or with dots, and below the name of the policy they are of."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any


def flattened(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters by names with dots; they may be nested, as tables of TOML are."""
    return dict(_flat(parameters, ""))


def by_policy(parameters: Mapping[str, Any], policies: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return parameters by the policy that their names begin with, without it; "" has those that begin with none."""
    sorted_out: dict[str, dict[str, Any]] = {"": {}}
    for key, value in flattened(parameters).items():
        policy = next((name for name in policies if key.startswith(f"{name}.")), "")
        sorted_out.setdefault(policy, {})[key[len(policy) + 1 :] if policy else key] = value
    return sorted_out


def _flat(parameters: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in parameters.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
