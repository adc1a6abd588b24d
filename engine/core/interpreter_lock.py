"""Lets the worker loop have the interpreter back soon after it let it go. Called by the shells that run a loop."""

import sys

SWITCH_S = 0.0005
"""How long a thread that runs Python may keep others waiting."""


def hand_over_soon() -> None:
    """Let threads hand the interpreter over after `SWITCH_S` instead of Python's 5 ms.

    The loop lets go of it in every kernel, and then waited for whoever uploads, fetches or compacts: a barrier that
    passes 20 kernels could stand for 100 ms.
    """
    sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
