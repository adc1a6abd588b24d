"""A task manager as the pool of its run knows it."""

from dataclasses import dataclass

from penstock.engine.executors.managers.life import ManagerState


@dataclass(slots=True)
class PoolMember:
    """Its state, where others meet it, a name of the files that it sees."""

    state: ManagerState
    address: str = ""
    files: str = ""
    order_ns: int | None = None
    """When it was told to end."""
    leave_ns: int | None = None
    """When it is let go that was told to end."""
    is_warm: bool = False
    """It has loaded its kernels."""
    is_released: bool = False
    """It was told that it may go."""
