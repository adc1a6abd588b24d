"""Output that a sink has sent without confirmation, as writers report it (`connectors.Writer.outstanding`)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outstanding:
    """A writer's unconfirmed output: the rows sent, and those ``left`` of which no arrival is known yet.

    ``arrived`` counts those of which that is known; it grows. ``where`` names what is written to, for messages.
    """

    left: int
    arrived: int
    where: str
