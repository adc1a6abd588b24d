"""How long evaluations on real parts run."""

from dataclasses import dataclass
from enum import StrEnum


class Scale(StrEnum):
    """``full``: phases of 90 s and ten minutes at 0.9; ``short``: 30 s and two minutes; ``smoke``: a minute in all."""

    FULL = "full"
    SHORT = "short"
    SMOKE = "smoke"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Seconds of a phase of the peak, of the phases of controls, and of the run at a load that is no overload."""

    phase_s: float
    control_s: float
    light_s: float


LENGTHS = {
    Scale.FULL: Lengths(90.0, 60.0, 600.0),
    Scale.SHORT: Lengths(30.0, 30.0, 120.0),
    Scale.SMOKE: Lengths(7.0, 7.0, 7.0),
}
