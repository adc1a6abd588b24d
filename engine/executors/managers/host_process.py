"""The contract between a task manager and the process it is in, whoever has started that."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from penstock.engine.control.machine_load import MachineReading
from penstock.engine.executors.managers.leave_order import LeaveOrder
from penstock.engine.executors.managers.next_heads import NextHeads
from penstock.engine.transport.tls import Tls

LOOPBACK = "127.0.0.1"
"""The address of task managers that are all on one machine."""


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    """What a task manager is told when its process begins.

    ``job`` and ``run`` are those of its head, ``name`` is its own. ``leave`` is given on SIGTERM, which systemd sends
    to a head and its task managers at once: the head has to agree before instances are let go.
    ``end_at_once`` is called, by any thread, when the head is gone: nothing that the process still does can count.
    With ``alone_s`` the process lives that many seconds without a head, and goes on under one of the next ``heads``.
    ``host`` is the address at which other task managers reach it. ``check`` raises a `PenstockError` if this process is
    not one that can do what the head says; the head hears of it.
    ``began`` is what was read of the host when the process began; None: as its task manager begins.
    With ``tls`` rows that go to other hosts are not sent in the clear.
    """

    name: str
    job: str
    run: int
    leave: LeaveOrder
    end_at_once: Callable[[], NoReturn]
    host: str = LOOPBACK
    check: Callable[[], None] = lambda: None
    began: MachineReading | None = None
    tls: Tls | None = None
    alone_s: float = 0.0
    heads: NextHeads = field(default_factory=NextHeads)
