"""The keep rate that a query needs for the error its user wants, from the errors that its rows had. Pure.

u^2 (1 - k) / k = e^2 is solved for k, where u is the unit error (`result_errors`) that the wanted share of rows does
not exceed. Called once a cycle, before the policy decides; where needs do not fit, `error_sharing` lowers them.
"""

import math
from dataclasses import dataclass, field, replace

from penstock.model.keep_rates import STEPS, in_steps
from penstock.shedding.keep_settings import DEAD_BAND
from penstock.shedding.result_errors import ErrorCounts, half_width_at


@dataclass(frozen=True, slots=True)
class ErrorGoal:
    """The wanted error e of a query in (0, 1), the share of rows in (0, 1) that it holds for, and the least keep rate.

    ``is_bounded``: its user has given a minimum accuracy, with which it begins; else it begins with all rows.
    """

    error: float
    share: float
    floor: float
    is_bounded: bool


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """How needs follow errors.

    ``headroom``: the error that is aimed at, as a share of the wanted one, since rows scatter around their rate.
    ``rows``: so many of the last rows are judged, or half of their number from the last cycle if that is more; those of
    a cycle before count for ``fade`` of what they did, since windows in which rates changed look worse than they are.
    ``raise_by``: a rate at which too many rows have no interval is exceeded by so much; ``probe_by``: that bound comes
    down by so much in each cycle in which they have one.
    """

    headroom: float = 0.95
    rows: float = 200.0
    fade: float = 0.85
    raise_by: float = 4 / STEPS
    probe_by: float = 0.1 / STEPS


@dataclass(frozen=True, slots=True)
class ErrorMemory:
    """What is known of a query: the last rows by unit error, the keep rate below which too many rows have no interval.

    ``unit_error`` None: no error was measured yet. ``need``: the last rate, for the dead band.
    """

    counts: ErrorCounts = field(default_factory=ErrorCounts)
    unit_error: float | None = None
    blind: float = 0.0
    need: float | None = None


def needed_keep(unit_error: float, error: float) -> float:
    """Return the keep rate in [0, 1] at which a row of this unit error has the relative half-width ``error`` > 0."""
    return 1.0 / (1.0 + (error / unit_error) ** 2) if unit_error > 0.0 else 0.0


def learned(rule: ErrorRule, memory: ErrorMemory, goal: ErrorGoal, counted: ErrorCounts) -> ErrorMemory:
    """Return the memory after a cycle in which these rows were written."""
    if not counted.rows:
        return memory
    past = memory.counts.rows
    room = max(rule.rows - counted.rows, 0.5 * counted.rows)
    counts = counted + memory.counts.scaled(min(rule.fade, room / past) if past else 0.0)
    unit_error = counts.quantile(goal.share)
    if math.isinf(unit_error):
        # Rows of a lower rate say nothing of whether there will be intervals at a higher one.
        blind = min(1.0, max(memory.blind, counts.unknown_keep) + rule.raise_by)
        counts = counts.without_unknown()
        known = counts.quantile(goal.share) if counts.rows else memory.unit_error
        return replace(memory, counts=counts, unit_error=known, blind=blind)
    return replace(memory, counts=counts, unit_error=unit_error, blind=max(0.0, memory.blind - rule.probe_by))


def need(rule: ErrorRule, memory: ErrorMemory, goal: ErrorGoal, ratio: float = 1.0) -> float:
    """Return the keep rate, in whole steps, at which the error is ``ratio`` times the wanted one, 1 or more.

    Before an error was measured that is the minimum accuracy if there is one, else all rows, and at a greater ratio
    one by its square.
    """
    if memory.unit_error is None and memory.blind == 0.0:
        keep = goal.floor if goal.is_bounded else 1.0 / (ratio * ratio)
    else:
        keep = needed_keep(memory.unit_error or 0.0, goal.error * rule.headroom * ratio)
        keep = max(keep, memory.blind / ratio)
    return in_steps(min(1.0, keep), goal.floor)


def steadied(rule: ErrorRule, memory: ErrorMemory, goal: ErrorGoal) -> ErrorMemory:
    """Return the memory with the rate that is needed now: more at once, less only beyond the dead band."""
    wanted = need(rule, memory, goal)
    held = memory.need
    stays = held is not None and wanted <= held <= wanted + DEAD_BAND and wanted > in_steps(0.0, goal.floor)
    return memory if stays else replace(memory, need=wanted)


def error_at(memory: ErrorMemory, keep: float) -> float | None:
    """Return the relative half-width that the wanted share of rows does not exceed at a rate in (0, 1]; None: unknown.

    0 where all rows are kept.
    """
    if keep >= 1.0:
        return 0.0
    return None if memory.unit_error is None or keep <= 0.0 else half_width_at(memory.unit_error, keep)
