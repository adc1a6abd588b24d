"""Preferences, reservations and flags that guide the placement of instances, from a snapshot's affinities.

Stream-Economics, sections 4 and 6; `placement` reads it.
"""

from dataclasses import dataclass

from penstock.model.plan import Move
from penstock.model.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class PlacementPreferences:
    """Machines by instance: preferred, reserved, and flagged (to which it must not return).

    What is reserved for one that runs is room for what it has, which is to go there.
    """

    preferred: dict[int, list[int]]
    reserved: dict[int, list[int]]
    flagged: dict[int, frozenset[int]]

    def has_no_say(self, move: Move) -> bool:
        """Return whether an instance starts elsewhere than where it is preferred."""
        wished = self.preferred.get(move.instance)
        return wished is not None and move.machine not in (*wished, *self.reserved.get(move.instance, ()))


def preferences_of(snapshot: ClusterSnapshot) -> PlacementPreferences:
    """Return the placement preferences in the snapshot's affinities."""
    affinities = snapshot.affinities
    preferred: dict[int, list[int]] = {}
    reserved: dict[int, list[int]] = {}
    flagged: dict[int, frozenset[int]] = {}
    rows = zip(
        affinities.instance.tolist(),
        affinities.machine.tolist(),
        affinities.is_preferred.tolist(),
        affinities.is_reserved.tolist(),
        affinities.is_flagged.tolist(),
        strict=True,
    )
    for instance, machine, is_preferred, is_reserved, is_flagged in rows:
        if is_preferred:
            preferred.setdefault(instance, []).append(machine)
        if is_reserved:
            reserved.setdefault(instance, []).append(machine)
        if is_flagged:
            flagged[instance] = flagged.get(instance, frozenset()) | {machine}
    return PlacementPreferences(preferred, reserved, flagged)
