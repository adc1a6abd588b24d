"""What Sage has changed, by resource and application, and what its limits refused of that. Called by `sage`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.sizing_rule import Resource

SAME = 1e-6
"""Two allocations are the same if they differ by no more than this part."""

Table = NDArray[np.float64]
"""Resources x applications."""


@dataclass(frozen=True, slots=True, eq=False)
class SizeChanges:
    """Times of the last changes, and of refusals: -inf if there was none.

    ``changed_from``: the value before the last change, NaN if there was none. ``shrink_refused_s`` and
    ``growth_refused_s``: when nothing was granted of a change, which is no change then; all applications together had
    ``refused_at`` of the resource.
    """

    changed_s: Table
    grown_s: Table
    changed_from: Table
    shrink_refused_s: Table
    growth_refused_s: Table
    refused_at: Table

    @classmethod
    def none(cls, applications: int = 0) -> "SizeChanges":
        """Return those of applications of which none has changed."""
        never, unknown = np.full((len(Resource), applications), -np.inf), np.full((len(Resource), applications), np.nan)
        return cls(never, never.copy(), unknown, never.copy(), never.copy(), unknown.copy())

    def of_applications(self, before: Sequence[str], names: Sequence[str]) -> "SizeChanges":
        """Return a copy whose columns, which were those of ``before``, are those of ``names``."""
        places = {name: place for place, name in enumerate(before)}
        known = np.array([name in places for name in names], np.bool_)
        old = [places[name] for name in names if name in places]
        aligned = SizeChanges.none(len(names))
        for column in SizeChanges.__slots__:
            getattr(aligned, column)[:, known] = getattr(self, column)[:, old]
        return aligned

    def without_refused(self, before: "SizeChanges", snapshot: ClusterSnapshot, allocated: Table) -> "SizeChanges":
        """Return a copy as ``before`` where nothing was granted of what was asked for since, noting when that was.

        Limits say how much was asked for. Who says no more than that something was withheld may grant it the next time.
        """
        refusals = snapshot.refusals
        if refusals.asked is None or refusals.granted is None or not len(refusals):
            return self
        places = {name: place for place, name in enumerate(snapshot.applications.name)}
        resources = {resource.name.lower(): resource for resource in Resource}
        refused = np.zeros(allocated.shape, np.bool_)
        figures = zip(refusals.asked.tolist(), refusals.granted.tolist(), strict=True)
        for subject, what, (asked, granted) in zip(refusals.subject, refusals.what, figures, strict=True):
            if subject in places and what in resources and np.isfinite(asked):
                cell = resources[what], places[subject]
                had = self.changed_from[cell]
                refused[cell] = not abs(granted - had) > SAME * had
        refused &= self.changed_s > before.changed_s
        is_growth = self.grown_s > before.grown_s
        # What a heap could not have, the memory has not: that is no quota, and its own rule raises it.
        refused[Resource.HEAP] &= ~is_growth[Resource.HEAP]
        total = np.nansum(allocated, axis=1, keepdims=True)
        return SizeChanges(
            np.where(refused, before.changed_s, self.changed_s),
            np.where(refused, before.grown_s, self.grown_s),
            np.where(refused, before.changed_from, self.changed_from),
            np.where(refused & ~is_growth, snapshot.time_s, self.shrink_refused_s),
            np.where(refused & is_growth, snapshot.time_s, self.growth_refused_s),
            np.where(refused, total, self.refused_at),
        )

    def with_room(self, allocated: Table) -> "SizeChanges":
        """Return them without refusals of growth where less of a resource is in use than when they were made."""
        less = np.nansum(allocated, axis=1, keepdims=True) < self.refused_at * (1 - SAME)
        return replace(self, growth_refused_s=np.where(less, -np.inf, self.growth_refused_s))

    def at_limit(self, resource: Resource, value: Floats, allocated: Table, since_s: float) -> Bools:
        """Return the applications to which values like this one of a resource were refused at or after ``since_s``."""
        refused_s = np.where(
            value > allocated[resource], self.growth_refused_s[resource], self.shrink_refused_s[resource]
        )
        return np.asarray(refused_s >= since_s, np.bool_)

    def note(self, resource: Resource, place: int, before: float, value: float, time_s: float) -> None:
        """Note a change, in place."""
        self.changed_s[resource, place], self.changed_from[resource, place] = time_s, before
        if value > before:
            self.grown_s[resource, place] = time_s
