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

    @property
    def is_usable(self) -> bool:
        """Whether it has joined, so that instances can be given to it."""
        return self.state not in (ManagerState.STARTED, ManagerState.OUTLIVING)

    def let_go(self, now_ns: int, stays_ns: int) -> None:
        """Tell it to end for good, unless it was told before; it stays no longer than so."""
        if self.order_ns is None:
            self.order_ns, self.leave_ns = now_ns, now_ns + stays_ns
