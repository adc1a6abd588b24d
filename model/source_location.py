"""Where the user wrote something: the file and line that error messages name (engine.md section 3).

Expressions and the DSL call it when they are built.
"""

import sys

_USER_PACKAGES = ("penstock.benchmarks", "penstock.replay", "penstock.examples")


def user_location() -> str:
    """Return ``file:line`` of the nearest caller that is not Penstock itself (benchmarks count as users)."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def is_ours(module: str) -> bool:
    """Return whether a module is Penstock's own; benchmarks, replays and examples count as users' code."""
    if module != "penstock" and not module.startswith("penstock."):
        return False
    return not module.startswith(_USER_PACKAGES)
