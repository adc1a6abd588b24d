"""What a sink has sent and does not know to have arrived. Said by writers, `connectors.Writer.outstanding`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What a writer has sent and what is ``left`` of it: rows of which nobody knows yet that they have arrived.

    ``arrived`` counts those of which that is known; it grows. ``where`` names what is written to, for messages.
    """

    left: int
    arrived: int
    where: str
