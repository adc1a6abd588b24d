"""The figures of a simulation, from TOML: each says whether the paper gives it, we measured, assume or configure it.

Whoever builds a scenario reads them by dotted name; `drawn` shakes those that no paper gives. Policies get the same.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from importlib.resources import files
from typing import Any, TypeVar

import numpy as np

ORIGINS = ("paper", "measured", "assumed", "configured")
"""Origins of a figure. No paper gives what is configured: rows try it in each configuration, and it is not drawn."""

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value and where it is ``origin`` from, one of `ORIGINS`."""

    value: Any
    origin: str


@dataclass(frozen=True)
class Parameters:
    """Parameters by dotted name: ``task.cpu_s`` for all tasks, ``task.count.cpu_s`` for the one called count."""

    entries: Mapping[str, Parameter]

    def __or__(self, other: "Parameters") -> "Parameters":
        """Return these, those of the other in place of their namesakes."""
        return Parameters({**self.entries, **other.entries})

    def value(self, section: str, field: str, name: str | None = None) -> Any:
        """Return ``section.name.field``, or else ``section.field``.

        Raises:
            KeyError: there is neither.
        """
        parameter = None if name is None else self.entries.get(f"{section}.{name}.{field}")
        return (parameter or self.entries[f"{section}.{field}"]).value

    def make(self, kind: type[Made], section: str, name: str | None = None, /, **given: Any) -> Made:
        """Return a dataclass whose fields that are not ``given``, and have no default, are those of a section."""
        values = dict(given)
        for field in fields(kind):  # type: ignore[arg-type]
            if field.name in values:
                continue
            optional = field.default is not MISSING
            try:
                values[field.name] = self.value(section, field.name, name)
            except KeyError:
                if not optional:
                    raise
        return kind(**values)

    def having(self, **values: Any) -> "Parameters":
        """Return these with other values, their origins as they were; two underscores stand for the dot.

        Raises:
            KeyError: there is no parameter of that name.
        """
        changed = {name.replace("__", "."): value for name, value in values.items()}
        return Parameters({**self.entries, **{k: replace(self.entries[k], value=v) for k, v in changed.items()}})


def default_parameters() -> Parameters:
    """Return what `defaults.toml` says."""
    return read_parameters((files(__package__) / "defaults.toml").read_text())


def evaluation_parameters(package: str, seed: int | None) -> Parameters:
    """Return the defaults and `parameters.toml` of a package, those that no paper gives drawn (None: as they stand)."""
    own = read_parameters((files(package) / "parameters.toml").read_text())
    whole = default_parameters() | own
    return whole if seed is None else drawn(whole, seed)


def read_parameters(text: str) -> Parameters:
    """Return the parameters of a TOML text; each is a table {value, from}.

    Raises:
        ValueError: one does not say where it is from.
    """
    return Parameters(dict(_entries(tomllib.loads(text), "")))


def drawn(parameters: Parameters, seed: int, spread: float = 0.3) -> Parameters:
    """Return the parameters with each number that no paper gives times a factor in [1 - spread, 1 + spread].

    Whole numbers stay whole and at least 1, shares and probabilities at most 1; texts and switches stay. The same
    seed draws the same, whatever other parameters there are.
    """
    return Parameters({name: _shaken(name, item, seed, spread) for name, item in parameters.entries.items()})


def _shaken(name: str, item: Parameter, seed: int, spread: float) -> Parameter:
    if item.origin in ("paper", "configured") or isinstance(item.value, bool | str):
        return item
    random = np.random.default_rng([seed, *name.encode()])
    if isinstance(item.value, list):
        return replace(item, value=[value * random.uniform(1 - spread, 1 + spread) for value in item.value])
    value = item.value * random.uniform(1 - spread, 1 + spread)
    if isinstance(item.value, int):
        return replace(item, value=max(min(1, item.value), round(value)))
    is_share = name.endswith(("_share", "_probability"))
    return replace(item, value=min(1.0, value) if is_share else float(value))


def _entries(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Parameter]]:
    for key, entry in table.items():
        name = f"{prefix}{key}"
        if not isinstance(entry, Mapping):
            raise ValueError(f"the parameter {name} does not say where it is from")
        if "value" not in entry:
            yield from _entries(entry, f"{name}.")
        elif entry.keys() != {"value", "from"} or entry["from"] not in ORIGINS:
            raise ValueError(f"the parameter {name} is a value and from, one of {ORIGINS}")
        else:
            yield name, Parameter(entry["value"], entry["from"])
