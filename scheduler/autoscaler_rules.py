"""The arithmetic of Flink's autoscaler, one function per rule, as in flink-kubernetes-operator.

Called by `autoscaler` (docs/design/papers/justin-ds2.md 2).
"""

from collections.abc import Sequence

import numpy as np

from penstock.model.columns import Bools, Floats

ROUNDING = 1e-9


def true_rate(rate_in: Floats, useful_share_most: Floats) -> Floats:
    """Return TPR = R / u: the rate (rows/s) that a task could process; infinite if no row arrived.

    R   rows a second that it took
    u   useful part of the time, in [0, 1], of its busiest instance: the mean would hide skew (FLINK-30652)
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rate_in == 0, np.inf, rate_in / useful_share_most)


def capacity(
    target: Floats, catch_up: Floats, utilisation: Floats | float, restart_s: float, catch_up_s: float
) -> Floats:
    """Return round(C + T * t_r / t_c + T / u): the rate (rows/s) that a task should be able to process.

    T     target rate (rows/s);  C: what the backlog adds to it (rows/s)
    u     part of the time that it may be busy, in [0, 1]; 0: no capacity is enough
    t_r   what a restart takes (s), 0 if none is counted;  t_c: time in which its backlog is to be gone (s)
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where(target == 0, 0.0, target / np.asarray(utilisation, np.float64))
    return np.round(catch_up + target * restart_s / catch_up_s + needed)


def scale_factor(wanted: Floats, rate: Floats, alpha: Floats, most_down: float, most_up: float) -> Floats:
    """Return capacity / TPR / alpha, within [1 - most_down, 1 + most_up].

    alpha   rate that an instance really adds, in (0, 1], 1 if scaling is linear
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip(wanted / rate / alpha, 1 - most_down, 1 + most_up)


def scaling_coefficient(observed: Sequence[tuple[int, float]]) -> float:
    """Return alpha = sum(P R) / (beta sum(P^2)), within [0.5, 1]; 1 for fewer than three observations.

    P, R   parallelism, and the true rate of all its instances (rows/s)
    beta   rate of an instance at the smallest P that was observed
    """
    if len(observed) < 3:
        return 1.0
    smallest, rate = min(observed)
    weighed = sum(p * r for p, r in observed) / (rate / smallest * sum(p * p for p, _ in observed))
    return min(1.0, max(0.5, weighed))


def new_parallelism(factor: Floats, parallelism: Floats, least: int, most: Floats) -> Floats:
    """Return ceil(factor * P), within [least, most]."""
    return np.clip(np.ceil(factor * parallelism * (1 - ROUNDING)), least, most)


def aligned_parallelism(parallelism: Floats, key_groups: Floats, most: Floats) -> Floats:
    """Return the first p >= P that divides the key groups G, or with which an instance has fewer: G // p < G // P.

    P itself if there is none up to ``most``.
    """
    if not len(parallelism):
        return parallelism
    ups = np.arange(int(np.max(most)) + 1, dtype=np.float64)[None, :]
    p, groups = parallelism[:, None], key_groups[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        good = (ups >= p) & (ups <= most[:, None]) & ((groups % ups == 0) | (groups // ups < groups // p))
    return np.where(good.any(axis=1), good.argmax(axis=1).astype(np.float64), parallelism)


def outside_band(rate: Floats, most_busy: Floats, least_busy: Floats) -> Bools:
    """Return the tasks whose true rate lies outside [rate at the busiest allowed, rate at the idlest allowed]."""
    return np.asarray((rate < most_busy) | (rate > least_busy))


def is_ineffective(before: float, expected: float, now: float, gain_least: float) -> bool:
    """Return whether (now - before) / (expected - before) < gain_least: the scale-up hardly raised the rate."""
    return expected > before and (now - before) / (expected - before) < gain_least
