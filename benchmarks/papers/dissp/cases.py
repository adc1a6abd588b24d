"""The cases of the DISSP evaluation, read from `parameters.toml`, and draws of their parameters."""

import tomllib
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from typing import Any

import numpy as np

ORIGINS = ("paper", "measured", "assumed")
VARIATION = 0.3


@dataclass(frozen=True, slots=True)
class SheddingCase:
    """Nodes, queries and how much too much there is; the parameters' file says what each is, and in which unit."""

    interval_ms: float
    smoothed_intervals: int
    window_intervals: int
    warm_up_intervals: int
    measured_intervals: int
    drain_intervals: int
    rate_rows_s: float
    rate_ratio: float
    rate_noise: float
    estimate_noise: float
    cost_ratio: float
    cost_noise: float
    link_ms: float
    coordinator_intervals: int
    result_delay_intervals: int
    batch_over_n: float
    threads: int
    operators: int
    selectivity: float
    nodes: int
    queries: int
    fragments: int
    sources: int
    overload_low: float
    overload_high: float

    def __post_init__(self) -> None:
        if self.fragments > self.nodes:
            raise ValueError(f"{self.fragments} fragments of a query cannot be on as many of {self.nodes} nodes")
        if self.overload_high < self.overload_low:
            raise ValueError("overload_high is less than overload_low")

    @property
    def intervals(self) -> int:
        """The number of intervals; what sources send in the last of them, nobody counts."""
        return self.warm_up_intervals + self.measured_intervals + self.drain_intervals


def case(name: str) -> SheddingCase:
    """Return a case as the file has it."""
    return SheddingCase(**{key: of["value"] for key, of in _parameters(name).items()})


def drawn(name: str, random: np.random.Generator, **fixed: Any) -> SheddingCase:
    """Return a case of which each parameter that varies is anywhere within +-30% of the file's."""
    given = case(name)
    changed: dict[str, Any] = {}
    for key, of in _parameters(name).items():
        if of.get("varies", False):
            value = of["value"] * random.uniform(1 - VARIATION, 1 + VARIATION)
            changed[key] = max(1, round(value)) if isinstance(of["value"], int) else value
    if given.overload_low == given.overload_high:
        changed["overload_high"] = changed["overload_low"]
    changed["overload_high"] = max(changed["overload_low"], changed["overload_high"])
    return replace(given, **changed, **fixed)


def _parameters(name: str) -> dict[str, dict[str, Any]]:
    tables = tomllib.loads((files(__package__) / "parameters.toml").read_text())
    parameters = {**tables["common"], **tables[name]}
    names = {field.name for field in fields(SheddingCase)}
    if parameters.keys() != names:
        raise ValueError(f"parameters of {name}: {sorted(parameters.keys() ^ names)} too much or too little")
    for key, of in parameters.items():
        if of["from"] not in ORIGINS:
            raise ValueError(f"{name}.{key} is from {of['from']!r}, not from one of {', '.join(ORIGINS)}")
    return parameters
