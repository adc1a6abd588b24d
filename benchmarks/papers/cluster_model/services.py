"""Remote services with their own latency and error processes. Called at every slow tick."""

import numpy as np

from penstock.benchmarks.papers.cluster_model.spec import ServiceSpec
from penstock.model.columns import Floats

MOST_LOAD = 0.95
"""Latency grows with load up to here; beyond, calls are refused by the limit of their rate."""


class Services:
    """All services of a cluster."""

    def __init__(self, specs: tuple[ServiceSpec, ...]) -> None:
        """Start at the curves' latencies."""
        self.specs = specs
        count = len(specs)
        self._deviation = np.zeros(count)
        self.latency_s = np.array([spec.latency_s(0.0) for spec in specs], np.float64)
        self.error_share = np.zeros(count)
        self.most_calls_per_s = np.array([spec.most_calls_per_s for spec in specs], np.float64)
        self.calls = np.zeros(count)
        self.errors = np.zeros(count)
        self.retries = np.zeros(count)
        self.latency_sum_s = np.zeros(count)

    def attempts(self) -> Floats:
        """Return how many calls a row's call becomes: 1 + e + ... + e^retries, e the share that fails."""
        powers = [
            sum(e**n for n in range(spec.retries + 1)) for spec, e in zip(self.specs, self.error_share, strict=True)
        ]
        return np.array(powers, np.float64)

    def advance(self, calls: Floats, time_s: float, dt: float, random: np.random.Generator) -> None:
        """Let rows have made ``calls`` in ``dt`` seconds, count them, and draw the next latencies.

        latency = curve x exp(sigma z - sigma^2 / 2) / (1 - load);  z: AR(1), correlated over ``correlation_s``
        """
        attempts = self.attempts()
        self.calls += calls * attempts
        self.errors += calls * attempts * self.error_share
        self.retries += calls * (attempts - 1)
        self.latency_sum_s += calls * attempts * self.latency_s
        for index, spec in enumerate(self.specs):
            stays = np.exp(-dt / max(spec.correlation_s, 1e-12))
            noise = random.standard_normal() * np.sqrt(1 - stays**2)
            self._deviation[index] = stays * self._deviation[index] + noise
            load = min(MOST_LOAD, calls[index] * attempts[index] / dt / spec.most_calls_per_s)
            factor = np.exp(spec.sigma * self._deviation[index] - spec.sigma**2 / 2)
            self.latency_s[index] = spec.latency_s(time_s) * factor / (1 - load)
            self.error_share[index] = spec.error_share(time_s)
