"""Named points where a test or `penstock chaos` may make the program fail; each costs one ``if`` while none is armed.

The points lie before and after every step that a crash must not tear apart.
"""

from collections.abc import Callable

_armed: Callable[[str], None] | None = None


def failpoint(name: str) -> None:
    """Mark a failpoint; an armed action may raise or end the process here."""
    if _armed is not None:
        _armed(name)


def arm(action: Callable[[str], None] | None) -> None:
    """Call ``action`` with the name of every point that is passed from now on; None disarms."""
    global _armed
    _armed = action
